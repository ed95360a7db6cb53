"""MariaDB and MySQL, through PyMySQL."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import pymysql
from pymysql.constants import CR, FIELD_TYPE
from pymysql.converters import conversions, escape_string

from stallbench.engines.driver import CONNECT_TIMEOUT_S, SAMPLING_TIMEOUT_S, Driver
from stallbench.engines.innodb.encryption import Encryption, read_encryption
from stallbench.records.endpoint import Endpoint
from stallbench.shell_command import format_shell_command
from stallbench.visible_text import VisibleText, make_visible, read_text

ANY_USER = ""
"""User of an endpoint whose server accepts any user name with the password. Each process then logs in with its own name, which is
the only name of a process that InnoDB's reports show."""

LONGEST_USER = 32
"""Longest user name in MySQL, in characters; MariaDB allows more."""

_KINDS_OF_TEXT = (
    FIELD_TYPE.VARCHAR,
    FIELD_TYPE.VAR_STRING,
    FIELD_TYPE.STRING,
    FIELD_TYPE.TINY_BLOB,
    FIELD_TYPE.BLOB,
    FIELD_TYPE.MEDIUM_BLOB,
    FIELD_TYPE.LONG_BLOB,
    FIELD_TYPE.ENUM,
    FIELD_TYPE.SET,
    FIELD_TYPE.JSON,
)


def _read(value: str | bytes) -> str | bytes:
    return read_text(value) if isinstance(value, str) else value


def _write(value: VisibleText, _: object) -> str:
    return f"'{escape_string(value.raw)}'"


VISIBLE_TEXT: dict[Any, Any] = conversions | dict.fromkeys(_KINDS_OF_TEXT, _read) | {VisibleText: _write}
"""What PyMySQL is given as ``conv`` for connections of which everything is only shown: text is made visible by `read_text`."""


class _PasswordRefused:
    """Answers a server that asks for the password itself rather than for a proof of it. PyMySQL would send it, and whoever is between the two would read it."""

    def __init__(self, _: pymysql.Connection) -> None:
        """Begin nothing."""

    def authenticate(self, _: object) -> None:
        """Send nothing; raises `pymysql.OperationalError`."""
        raise pymysql.OperationalError(
            CR.CR_AUTH_PLUGIN_ERR,
            "the server asks for the password in clear text, which is sent in an encrypted session only: add ?ssl_mode=required to the address",
        )


_PASSWORD_REFUSED: dict[str, Callable[[pymysql.Connection], Any]] = dict.fromkeys(
    ("mysql_clear_password", "dialog"), _PasswordRefused
)


class PyMySQLDriver(Driver):
    """PyMySQL's connections, in autocommit."""

    errors = (pymysql.Error,)

    def connect(self, endpoint: Endpoint, name: str) -> pymysql.Connection:
        """Connect; raises `pymysql.OperationalError` when the server cannot be reached."""
        return self._connect(endpoint, name)

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> pymysql.Connection:
        """Connect with a time limit for every answer, and with a short one for locks."""
        connection = self._connect(endpoint, name, read_timeout=SAMPLING_TIMEOUT_S, conv=VISIBLE_TEXT)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1")
        except BaseException:
            self.close(connection)
            raise
        return connection

    def is_closed(self, connection: pymysql.Connection) -> bool:
        """Whether PyMySQL has closed its socket."""
        return not connection.open

    def read_clock(self, connection: pymysql.Connection) -> int:
        """Return it with a resolution of 1 µs."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)")
            row = cursor.fetchone()
        assert row is not None
        return int(row[0]) * 1000

    def abort(self, connection: pymysql.Connection) -> None:
        """Shut its socket down."""
        with suppress(OSError, AttributeError):
            connection._sock.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]

    def console(self, endpoint: Endpoint) -> str:
        """Return a command with MariaDB's or MySQL's client."""
        password = endpoint.password.get_secret_value()
        words = ["mysql", "-h", endpoint.host, "-P", endpoint.port, "-u", endpoint.user or "me", endpoint.database]
        return f"MYSQL_PWD={format_shell_command([password])} {format_shell_command(words)}"

    def code(self, error: Exception) -> str:
        """Return the server's or the client library's error number, like ``1213``, or the code of `make_error`."""
        number = error.args[0] if len(error.args) > 1 or isinstance(next(iter(error.args), None), int) else None
        return str(number or type(error).__name__)

    def make_error(self, code: str, message: str) -> Exception:
        """Return an error with the code in the place of the number, as a text: an SQLSTATE like ``08001`` is no number."""
        return pymysql.DatabaseError(code, message)

    def describe(self, error: Exception) -> str:
        """Return the message without the error number."""
        if len(error.args) <= 1:
            return super().describe(error)
        return make_visible(" ".join(str(error.args[1]).split()), in_one_line=True)

    def _connect(self, endpoint: Endpoint, name: str, **options: Any) -> pymysql.Connection:
        encryption = read_encryption(f"the address of {endpoint.host}", urlencode(endpoint.parameters))
        return open_connection(
            endpoint,
            encryption,
            user=endpoint.user or name[:LONGEST_USER],
            connect_timeout=CONNECT_TIMEOUT_S,
            program_name=f"stallbench:{name}",
            **options,
        )


def open_connection(endpoint: Endpoint, encryption: Encryption, **options: Any) -> pymysql.Connection:
    """Connect in autocommit, without giving the password to a server that asks for it in clear text. ``options``: further ones of PyMySQL.

    Raises `pymysql.OperationalError`, also if what answers does not speak the protocol, on which PyMySQL ends with errors of its own parsing.
    """
    try:
        connection = pymysql.connect(
            host=endpoint.host,
            port=endpoint.port,
            database=endpoint.database,
            password=endpoint.password.get_secret_value(),
            charset="utf8mb4",
            autocommit=True,
            defer_connect=bool(endpoint.proxy_host),
            auth_plugin_map={} if encryption.context else _PASSWORD_REFUSED,
            **encryption.options,
            **options,
        )
        if endpoint.proxy_host:  # the certificate is still the server's
            connection.connect(_reach(endpoint))
    except pymysql.Error:
        raise
    except (AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError, struct.error) as error:
        what = f"what answers does not speak the protocol of MariaDB or MySQL ({type(error).__name__}: {error})"
        raise pymysql.OperationalError(CR.CR_MALFORMED_PACKET, what) from error
    return connection


def _reach(endpoint: Endpoint) -> socket.socket:
    """Connect to the proxy in front of a server, as PyMySQL connects to a server."""
    try:
        reached = socket.create_connection((endpoint.proxy_host, endpoint.port), CONNECT_TIMEOUT_S)
    except OSError as error:
        raise pymysql.OperationalError(
            CR.CR_CONN_HOST_ERROR, f"Can't connect to MySQL server on {endpoint.proxy_host!r} ({error})"
        ) from error
    reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reached.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return reached


DRIVER = PyMySQLDriver()
_SYNTAX_ERROR = 1064
_UNKNOWN_VARIABLE = 1193

FRESH_STATISTICS = "SET SESSION information_schema_stats_expiry = 0"
"""MySQL shows AUTO_INCREMENT and sizes of tables as they were up to a day ago, unless this is set. MariaDB keeps none and does not have the setting."""


def set_if_known(execute: Callable[[str], object], statement: str) -> None:
    """Change a setting that not every server has. Raises PyMySQL's errors, except for a server that does not know the setting."""
    try:
        execute(statement)
    except pymysql.Error as error:
        if error.args[0] != _UNKNOWN_VARIABLE:
            raise


def read_replica_status(cursor: Any) -> dict[str, Any]:
    """Return ``SHOW REPLICA STATUS`` by names in lower case, with ``replica`` for ``slave`` and ``source`` for ``master``.

    Empty if the server is not a replica.
    """
    try:
        cursor.execute("SHOW REPLICA STATUS")
    except pymysql.ProgrammingError as error:
        if error.args[0] != _SYNTAX_ERROR:
            raise
        cursor.execute("SHOW SLAVE STATUS")  # MySQL before 8.0.22
    row = cursor.fetchone()
    if row is None:
        return {}
    names = [column[0].lower().replace("slave", "replica").replace("master", "source") for column in cursor.description]
    return dict(zip(names, row, strict=True))
