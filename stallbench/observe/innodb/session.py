"""The connection of `stallbench observe` to a MariaDB or MySQL server: its transactions are read-only, and its statements end early."""

from __future__ import annotations

import socket
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from stallbench.engines.innodb.driver import DRIVER, FRESH_STATISTICS, VISIBLE_TEXT, open_connection, set_if_known
from stallbench.engines.innodb.encryption import Encryption
from stallbench.engines.innodb.error_codes import SESSION_ENDED
from stallbench.errors import NotCarriedOutError
from stallbench.observe.address import PRIMARY
from stallbench.observe.innodb.own_statements import Signature, sign
from stallbench.observe.observer import ServerGoneError
from stallbench.observe.server_time import MARK, ServerTime
from stallbench.records.endpoint import Endpoint

PROGRAM = "stallbench:observe"
STATEMENT_TIMEOUT_S = 2
_CONNECT_TIMEOUT_S = 5
_SETTINGS = (
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1",
    "SET SESSION time_zone = '+00:00'",  # of timestamps, which libraries write in UTC
)
_TIMEOUTS = (
    f"SET SESSION max_statement_time = {STATEMENT_TIMEOUT_S}",
    f"SET SESSION max_execution_time = {STATEMENT_TIMEOUT_S * 1000}",
)
"""MariaDB's and MySQL's."""
_CERTIFICATE_REFUSED = "certificate verify failed"
_WRONG_AUTHORITY = "ssl_ca must name the certificate of the authority that signed the server's"
_WRONG_NAME = "ssl_verify_identity checks that the certificate is for the host in the address; ssl_ca alone does not"


class InnoDBSession:
    """One session, with the cursors of a PyMySQL connection."""

    def __init__(self, endpoint: Endpoint, name: str = PRIMARY, encryption: Encryption | None = None) -> None:
        """Connect. Raises `ServerGoneError` when the server cannot be reached or refuses, `NotCarriedOutError` if it cannot be read safely."""
        self.endpoint = endpoint
        self.name = name
        self.is_pooled = False
        self.signatures: set[Signature | None] = set()
        """Of the queries that were executed."""
        self._signed: set[str] = set()
        self._server_time = ServerTime()
        session = self

        class MeasuredCursor(Cursor):
            """Marks its queries, measures them, and distinguishes a session that has ended from a query that was refused."""

            def execute(self, query: str, args: object = None) -> int:
                return session._execute(super().execute, query, args)

        try:
            self._connection = open_connection(
                endpoint,
                encryption or Encryption(),
                user=endpoint.user,
                connect_timeout=_CONNECT_TIMEOUT_S,
                read_timeout=STATEMENT_TIMEOUT_S + 3,
                program_name=PROGRAM,
                cursorclass=MeasuredCursor,
                conv=VISIBLE_TEXT,
            )
        except pymysql.Error as error:
            raise ServerGoneError(name, _explain_refusal(endpoint, error)) from error
        try:
            self._restrict()
        except pymysql.Error as error:
            self.close()
            raise ServerGoneError(name, DRIVER.describe(error)) from error

    @property
    def spent_s(self) -> float:
        """How long the server has worked for this session, at most."""
        return self._server_time.spent_s

    @property
    def version_text(self) -> str:
        """The server's version."""
        ((version,),) = self.fetch("SELECT version()")
        return str(version)

    def cursor(self) -> Any:
        """Return a cursor; its ``execute`` raises `ServerGoneError` when the session has ended, or one of PyMySQL's errors."""
        return self._connection.cursor()

    def fetch(self, query: str, values: object = None) -> list[tuple[Any, ...]]:
        """Execute one query and return its rows; raises as `cursor` does."""
        with self.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall())

    def close(self) -> None:
        """Close it in any state."""
        DRIVER.close(self._connection)

    def _restrict(self) -> None:
        for statement in _SETTINGS:
            self.fetch(statement)
        for statement in (*_TIMEOUTS, FRESH_STATISTICS):
            set_if_known(self.fetch, statement)
        names = ("tx_read_only", "transaction_read_only")
        found = dict(self.fetch(f"SHOW SESSION VARIABLES WHERE variable_name IN {names}"))
        if "ON" not in found.values():
            self.close()
            raise NotCarriedOutError(
                f"{self.endpoint.host}:{self.endpoint.port} does not keep a session read-only, so it is not observed"
            )

    def _execute(self, execute: Any, query: str, values: object) -> int:
        if query not in self._signed:
            self._signed.add(query)
            self.signatures.add(sign(query))
        try:
            with self._server_time.measure():
                return int(execute(f"{MARK} {query.strip()}", values))
        except pymysql.Error as error:
            if DRIVER.code(error) in SESSION_ENDED or not self._connection.open:
                self.close()
                raise ServerGoneError(self.name, DRIVER.describe(error)) from error
            raise


_FROM_OUTSIDE = (
    "Without a connection, on the machine of the server: ss -tnp state established '( sport = :{port} )' shows the clients"
)
_FULL = {
    1040: "every connection that ordinary users may have is in use: one more is kept for a user with CONNECTION ADMIN (SUPER in older versions), "
    "and MariaDB has connections of its own on extra_port, if that is set; with such an address the report says who holds the others",
    1203: "this user has as many connections as max_user_connections allows: give the address of another user with PROCESS",
    1226: "this user has as many connections as it may have (MAX_USER_CONNECTIONS): give the address of another user with PROCESS",
}
"""By the server's code when it is full: what is known of it, and what to do."""


def _explain_refusal(endpoint: Endpoint, error: pymysql.Error) -> str:
    """Return the driver's words, with the cause if a certificate was refused, or if the port is open and no MariaDB or MySQL has answered."""
    words = DRIVER.describe(error)
    if full := _FULL.get(error.args[0] if error.args else 0):
        return f"{words}; {full}. {_FROM_OUTSIDE.format(port=endpoint.port)}"
    if _CERTIFICATE_REFUSED in words:
        is_name = "mismatch" in words or "not valid for" in words
        return f"{words}; {_WRONG_NAME if is_name else _WRONG_AUTHORITY}"
    if "timed out" not in words or not _is_port_open(endpoint):
        return words
    return f"{words}; the port is open, but no MariaDB or MySQL answers. Is it PostgreSQL (--dsn postgresql://..)?"


def _is_port_open(endpoint: Endpoint) -> bool:
    try:
        with socket.create_connection((endpoint.host, endpoint.port), timeout=_CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False
