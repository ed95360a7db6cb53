"""The connection of `stallbench observe` to a PostgreSQL server. It cannot write, waits for no lock, and holds no snapshot between two queries.

The settings that ensure this travel in the connection's startup message (``options``), so they hold from the first query on and end with
the session. A pooler does not pass such a message on, and a SET through it would change a connection that it shares with the application.
Through a pooler, each query is therefore a read-only transaction of its own, whose settings (SET LOCAL) end with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any, NamedTuple

import psycopg
from psycopg.types.numeric import FloatLoader

from stallbench.engines.postgres import DRIVER, Connection, read_visible_text
from stallbench.errors import NotCarriedOutError
from stallbench.observe.address import PRIMARY
from stallbench.observe.observer import ServerGoneError
from stallbench.observe.server_time import ServerTime, mark
from stallbench.records.endpoint import Endpoint

APPLICATION = "stallbench:observe"
"""Application name of its sessions."""
STATEMENT_TIMEOUT_MS = 2000
"""Time limit for each of its statements."""
_CONNECT_TIMEOUT_S = 5
ANSWER_TIMEOUT_S = 10.0
"""A pooler without a free connection lets a query wait for minutes, and a network that drops packets for hours: the server's own time limits do not
apply to that."""
_SETTINGS: Mapping[str, str] = {
    "default_transaction_read_only": "on",
    "statement_timeout": f"{STATEMENT_TIMEOUT_MS}ms",
    "lock_timeout": "100ms",
    "idle_in_transaction_session_timeout": "10s",
    # Names in the queries cannot refer to anything that a user of the database has created.
    "search_path": "pg_catalog",
    # A count that a policy would make wrong fails instead, and no policy's function is executed.
    "row_security": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "TimeZone": "UTC",  # of timestamps without a time zone, which libraries write in UTC
}
_IN_TRANSACTION = "; ".join(
    mark(f"SET LOCAL {name if name != 'default_transaction_read_only' else 'transaction_read_only'} = '{value}'")
    for name, value in _SETTINGS.items()
)
_NOT_PASSED_ON = "unsupported startup parameter"
_NO_TRANSACTIONS = "statement pooling mode"
_DIRECT = "give the address of the PostgreSQL server itself"
_OF_ANOTHER_PROTOCOL = ("invalid response to SSL negotiation", "expected authentication request from server")
"""How libpq describes the greeting of a server of another kind."""
_SUPERUSER = "give the address of a superuser"
_FULL = {
    "sorry, too many clients already": "every connection is in use, also those that are reserved for superusers",
    "reserved for roles with privileges of": f"only reserved connections are left: {_SUPERUSER}, or of a member of pg_use_reserved_connections, "
    "and the report says who holds the others",
    "remaining connection slots are reserved": f"only connections that are reserved for superusers are left: {_SUPERUSER}, "
    "and the report says who holds the others",
    "too many connections for role": f"this user has as many connections as its CONNECTION LIMIT allows: {_SUPERUSER}, and the report says who holds them",
    "too many connections for database": f"the database has as many connections as its CONNECTION LIMIT allows: {_SUPERUSER}, "
    "and the report says who holds them",
}
"""By the server's words when it is full: what is known of it, and what to do. libpq does not pass on the SQLSTATE of a refused connection."""
_FROM_OUTSIDE = (
    "Without a connection, on the machine of the server: ps -eo pid,etime,args | grep '[p]ostgres: ' shows user, database, client and state "
    "of each session; kill -TERM PID ends one, as pg_terminate_backend does"
)
_OUT_OF_REACH = ("57P", "08")
"""Classes of SQLSTATE by which a server ends a session."""


class Rows(NamedTuple):
    """The rows of one query."""

    rows: list[tuple[Any, ...]]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return self.rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the first row; none if there is none."""
        return self.rows[0] if self.rows else None


class ReadOnlySession:
    """One session. Queries are those of a psycopg connection: ``execute(...).fetchall()``."""

    def __init__(self, endpoint: Endpoint, name: str = PRIMARY) -> None:
        """Connect. Raises `ServerGoneError` when the server cannot be reached or refuses, `NotCarriedOutError` if it cannot be read safely."""
        self.endpoint = endpoint
        self.name = name
        self.is_pooled = False
        """Whether the connection leads through a pooler."""
        self._connection: Connection
        self._has_given_up = False
        self._server_time = ServerTime()
        self._connect()

    @property
    def version(self) -> int:
        """The server's version as PostgreSQL numbers it: 150008 for 15.8."""
        return self._connection.info.server_version

    @property
    def version_text(self) -> str:
        """The server's version, like ``15.8``."""
        return f"{self.version // 10_000}.{self.version % 10_000}"

    @property
    def spent_s(self) -> float:
        """How long the server has worked for this session, at most."""
        return self._server_time.spent_s

    def execute(self, query: str, values: Any = None, *, timeout_ms: int | None = None) -> Rows:
        """Execute one query and return its rows. ``timeout_ms``: a shorter time limit than `STATEMENT_TIMEOUT_MS`.

        Raises `ServerGoneError` when the session has ended, or one of psycopg's errors when the server refuses the query.
        """
        query = mark(query)
        try:
            with self._answered_in_time():
                if self.is_pooled or timeout_ms is not None:
                    return self._execute_in_transaction(query, values, timeout_ms)
                return self._fetch(query, values)
        except psycopg.Error as error:
            if self._has_given_up:
                self.close()
                raise ServerGoneError(self.name, self._describe_silence()) from error
            if self._is_lost(error):
                self.close()
                raise ServerGoneError(self.name, DRIVER.describe(error)) from error
            raise

    def close(self) -> None:
        """Close it in any state."""
        DRIVER.close(self._connection)

    def abort(self) -> None:
        """Interrupt the query of another thread."""
        DRIVER.abort(self._connection)

    @contextmanager
    def _answered_in_time(self) -> Iterator[None]:
        """Shut the connection down if there is no answer within `ANSWER_TIMEOUT_S`, which ends the query with an error."""
        timer = Timer(ANSWER_TIMEOUT_S, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._has_given_up = True
        self.abort()

    def _describe_silence(self) -> str:
        if self.is_pooled:
            return f"no connection of the pool was free for {ANSWER_TIMEOUT_S:g} s; try again, enlarge the pool, or {_DIRECT}"
        return f"did not answer within {ANSWER_TIMEOUT_S:g} s"

    def _execute_in_transaction(self, query: str, values: Any, timeout_ms: int | None) -> Rows:
        """Execute it in a transaction of its own; no snapshot is held before or after the query."""
        begin = mark("BEGIN READ ONLY")
        if self.is_pooled:
            begin += f"; {_IN_TRANSACTION}"
        if timeout_ms is not None:
            begin += f"; {mark(f'SET LOCAL statement_timeout = {timeout_ms:d}')}"
        with self._server_time.measure():
            self._connection.execute(begin, prepare=False)
        try:
            rows = self._fetch(query, values)
        except BaseException:
            with suppress(psycopg.Error), self._server_time.measure():
                self._connection.execute(mark("ROLLBACK"))
            raise
        with self._server_time.measure():
            self._connection.execute(mark("COMMIT"))
        return rows

    def _fetch(self, query: str, values: Any) -> Rows:
        with self._server_time.measure():
            return Rows(self._connection.execute(query, values).fetchall())

    def _is_lost(self, error: psycopg.Error) -> bool:
        return self._connection.closed or (error.sqlstate or "").startswith(_OUT_OF_REACH)

    def _connect(self) -> None:
        try:
            self._connection = self._open(" ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()))
        except psycopg.OperationalError as error:
            if _NOT_PASSED_ON not in str(error):
                raise ServerGoneError(self.name, _explain_refusal(error)) from error
            self._connect_through_pooler()
            return
        except psycopg.Error as error:
            raise ServerGoneError(self.name, DRIVER.describe(error)) from error
        if not self._is_read_only("SHOW default_transaction_read_only"):
            self.close()
            self._connect_through_pooler()
            return
        self._connection.prepare_threshold = 0  # every query is repeated: prepare it the first time

    def _connect_through_pooler(self) -> None:
        self.is_pooled = True
        try:
            self._connection = self._open("")
            (is_read_only,) = self.execute("SHOW transaction_read_only").fetchone() or ("?",)
        except (psycopg.Error, ServerGoneError) as error:
            words = DRIVER.describe(error) if isinstance(error, psycopg.Error) else str(error)
            if _NO_TRANSACTIONS in words:
                raise NotCarriedOutError(
                    f"{self.endpoint.host}:{self.endpoint.port} is a pooler in statement mode, in which no transaction can be read-only, so it is "
                    f"not observed; {_DIRECT}, or that of a pool in session or transaction mode"
                ) from error
            raise ServerGoneError(self.name, f"through a pooler: {words}") from error
        if is_read_only != "on":
            self.close()
            raise NotCarriedOutError(
                f"{self.endpoint.host}:{self.endpoint.port} does not keep a transaction read-only (transaction_read_only is "
                f"{is_read_only!r}), so it is not observed; {_DIRECT}"
            )

    def _is_read_only(self, query: str) -> bool:
        try:
            with self._answered_in_time():
                row = self._connection.execute(query).fetchone()
        except psycopg.Error as error:
            is_lost = self._is_lost(error)
            self.close()
            if self._has_given_up:
                self.is_pooled = True  # a server would have answered
                raise ServerGoneError(self.name, self._describe_silence()) from error
            if is_lost:  # a server that is restarted has accepted the connection, and can be tried again
                raise ServerGoneError(self.name, DRIVER.describe(error)) from error
            raise NotCarriedOutError(
                f"{self.endpoint.host}:{self.endpoint.port} does not answer as PostgreSQL does: {query}: {DRIVER.describe(error)}"
            ) from error
        return row == ("on",)

    def _open(self, options: str) -> Connection:
        connection = psycopg.connect(
            host=self.endpoint.host or None,
            port=self.endpoint.port,
            dbname=self.endpoint.database or None,
            user=self.endpoint.user or None,
            password=self.endpoint.password.get_secret_value() or None,
            application_name=APPLICATION,
            connect_timeout=_CONNECT_TIMEOUT_S,
            autocommit=True,
            prepare_threshold=None,
            options=options or None,
        )
        connection.adapters.register_loader("numeric", FloatLoader)
        read_visible_text(connection)
        return connection


def _explain_refusal(error: psycopg.Error) -> str:
    """Return the driver's words, with the likely cause if what answered does not speak PostgreSQL's protocol."""
    words = DRIVER.describe(error)
    if full := next((what for phrase, what in _FULL.items() if phrase in words), ""):
        return f"{words}; {full}. {_FROM_OUTSIDE}"
    if any(words_of_libpq in words for words_of_libpq in _OF_ANOTHER_PROTOCOL):
        return f"{words}; no PostgreSQL answers. Is it MariaDB or MySQL (--dsn mariadb://..)?"
    return words
