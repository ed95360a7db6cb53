"""The connection of `stallbench observe` to a PostgreSQL server. It cannot write, waits for no lock, and holds no snapshot between two queries.

Every query is a transaction of its own, through a pooler or not: it begins read-only, sets each limit for itself alone (as SET LOCAL does), lets the server
check that all of them are in force, reads, and is rolled back. So nothing depends on what another transaction has left in the session, and nothing reaches
other clients of a pooler. Before a user's table is read, the same transaction locks it and looks whose code that would execute
(`stallbench.observe.postgres.foreign_code`).

What a rollback does not undo (advisory locks, prepared statements, loaded libraries) could only come from code of others. It is executed only if the user
named the table; then the session is closed afterwards, and the next query opens another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Timer
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import FloatLoader

from stallbench.engines.postgres.driver import DRIVER, Connection, read_visible_text
from stallbench.errors import NotCarriedOutError
from stallbench.observe.address import PRIMARY
from stallbench.observe.observer import ForeignCodeError, ServerGoneError
from stallbench.observe.postgres.foreign_code import HAZARDS, ReadTables, describe_hazards
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
_PLANS = (
    "enable_seqscan",
    "enable_indexscan",
    "enable_indexonlyscan",
    "enable_bitmapscan",
    "enable_tidscan",
    "enable_sort",
    "enable_hashagg",
    "enable_material",
    "enable_nestloop",
    "enable_mergejoin",
    "enable_hashjoin",
)
_SETTINGS: Mapping[str, str] = {
    # Whoever owns the database can set another role for all its sessions; the checks are of the rights of who has logged in.
    "role": "none",
    "quote_all_identifiers": "off",  # first: else the server writes the search_path, and names, in quotes that they do not need
    "lock_timeout": "100ms",
    "idle_in_transaction_session_timeout": "10s",
    # Names in the queries cannot refer to anything that a user of the database has created.
    "search_path": "pg_catalog",
    # A count that a policy would make wrong fails instead, and no policy's function is executed.
    "row_security": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",  # every query is repeated, and to plan one takes longer than to execute it
    # The plans and figures are those of the server's own defaults: with others the queries below would run into their time limit.
    **dict.fromkeys(_PLANS, "on"),
    "from_collapse_limit": "8",
    "join_collapse_limit": "8",
    "work_mem": "4MB",
    "extra_float_digits": "1",
    "TimeZone": "UTC",  # of timestamps without a time zone, which libraries write in UTC
    # What the driver can read, and how the queries are written.
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "standard_conforming_strings": "on",
}
"""As the server shows them. Whoever owns the database decides what applies without them (``ALTER DATABASE .. SET``)."""
_NO_TRANSACTION_TIMEOUT_FROM = 17_00_00
"""The version from which on a database can have a `transaction_timeout`."""
_WITHOUT_ENCODING = "SQL_ASCII"
_BEGIN = mark("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY")
_ROLLBACK = mark("ROLLBACK")
_OF_THE_TRANSACTION = {"transaction_read_only": "on", "transaction_isolation": "read committed"}


def _write_limits(connection: Connection, timeout_ms: int) -> str:
    """Return statements that set every limit for the transaction, and that fail unless all of them are in force.

    The check names its operator with its schema, because the search_path is among what it checks. Its cast fails, and with it the transaction.
    """
    timeout = f"{timeout_ms // 1000}s" if timeout_ms % 1000 == 0 else f"{timeout_ms}ms"
    has_no_encoding = connection.info.parameter_status("server_encoding") == _WITHOUT_ENCODING
    wanted = {
        **({"transaction_timeout": "0"} if connection.info.server_version >= _NO_TRANSACTION_TIMEOUT_FROM else {}),
        "statement_timeout": timeout,
        "client_encoding": _WITHOUT_ENCODING if has_no_encoding else "UTF8",
        **_SETTINGS,
    }
    shown = {**_OF_THE_TRANSACTION, **wanted}
    holds = " AND ".join(
        f"pg_catalog.current_setting('{name}') OPERATOR(pg_catalog.=) '{value}'" for name, value in shown.items()
    )
    found = ", ' ', ".join(f"pg_catalog.current_setting('{name}')" for name in shown)
    check = f"SELECT CASE WHEN {holds} THEN 0 ELSE CAST(pg_catalog.concat({found}) AS integer) END"
    return "; ".join(mark(each) for each in (*(f"SET LOCAL {name} = '{value}'" for name, value in wanted.items()), check))


_LOCK = "LOCK TABLE {tables} IN ACCESS SHARE MODE"
_SETTINGS_FAILED = psycopg.errors.InvalidTextRepresentation
_PASSED_ON_BY_A_SERVER = (
    f"-c default_transaction_read_only=on -c statement_timeout={STATEMENT_TIMEOUT_MS} -c idle_session_timeout=0"
)
"""Startup parameters. By the first a server is told from a pooler, which refuses it or drops it. The others apply before a transaction can set
its own, and between two of them: a database can have a limit of a millisecond for all its sessions."""
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
    risk: str = ""
    """Whose code the query may have executed because the user accepted that; empty if it cannot have executed any."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return self.rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the first row; none if there is none."""
        return self.rows[0] if self.rows else None


class _Transaction:
    """A read-only transaction, which begins with its first query."""

    def __init__(self, connection: Connection, server_time: ServerTime) -> None:
        self._connection = connection
        self._server_time = server_time
        self._has_begun = False
        self.leaves_state = False
        """Whether the session may afterwards have what a rollback does not undo."""

    def read(self, query: str, values: Any, timeout_ms: int, *, before: str = "") -> Rows:
        """Return the rows of a query, which is sent only when every limit is in force. ``before``: a statement to execute before it."""
        limits = _write_limits(self._connection, timeout_ms)
        with self._server_time.measure():
            begin = "" if self._has_begun else f"{_BEGIN}; "
            self._has_begun = True
            self._connection.execute(begin + limits, prepare=False)
        if before:
            with self._server_time.measure():
                self._connection.execute(before)
        with self._server_time.measure():
            return Rows(self._connection.execute(query, values).fetchall())

    def roll_back(self) -> None:
        """Roll it back. psycopg's own ROLLBACK would also discard all prepared statements."""
        if self._has_begun and not self._connection.closed:
            with self._server_time.measure():
                self._connection.pgconn.exec_(_ROLLBACK.encode())
            if self._connection.info.transaction_status != TransactionStatus.IDLE:
                self._connection.close()


class ReadOnlySession:
    """One session. Queries are those of a psycopg connection: ``execute(...).fetchall()``."""

    def __init__(self, endpoint: Endpoint, name: str = PRIMARY) -> None:
        """Connect. Raises `ServerGoneError` when the server cannot be reached or refuses, `NotCarriedOutError` if it cannot be read safely."""
        self.endpoint = endpoint
        self.name = name
        self.is_pooled = False
        """Whether the connection leads through a pooler."""
        self._connection: Connection
        self.rolled_back = 0
        """How many transactions it has rolled back: every query is one."""
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

    def execute(
        self, query: str, values: Any = None, *, timeout_ms: int = STATEMENT_TIMEOUT_MS, tables: ReadTables | None = None
    ) -> Rows:
        """Execute one query and return its rows. ``timeout_ms``: its time limit. ``tables``: those of users that it reads.

        Raises `ServerGoneError` when the session has ended, `ForeignCodeError` if the read of the tables would execute code of others and the user did
        not accept that, or one of psycopg's errors when the server refuses the query.
        """
        with self._answered_in_time(), self._transaction() as transaction:
            if tables is None:
                return transaction.read(mark(query), values, timeout_ms)
            return self._read_tables(transaction, mark(query), values, timeout_ms, tables)

    def close(self) -> None:
        """Close it in any state."""
        DRIVER.close(self._connection)

    def abort(self) -> None:
        """Interrupt the query of another thread."""
        DRIVER.abort(self._connection)

    @contextmanager
    def _answered_in_time(self) -> Iterator[None]:
        """Shut the connection down if there is no answer within `ANSWER_TIMEOUT_S`.

        Raises `ServerGoneError` when the session has ended, and psycopg's errors when the server refuses something.
        """
        timer = Timer(ANSWER_TIMEOUT_S, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except UnicodeEncodeError as error:
            # SQL_ASCII: the catalog has a name with bytes of which nobody knows the encoding.
            raise psycopg.errors.CharacterNotInRepertoire(
                "a name in the query cannot be written in the database's encoding"
            ) from error
        except psycopg.Error as error:
            if self._has_given_up:
                self.close()
                raise ServerGoneError(self.name, self._describe_silence()) from error
            if self._is_lost(error):
                self.close()
                raise ServerGoneError(self.name, DRIVER.describe(error)) from error
            raise
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._has_given_up = True
        self.abort()

    def _describe_silence(self) -> str:
        if self.is_pooled:
            return f"no connection of the pool was free for {ANSWER_TIMEOUT_S:g} s; try again, enlarge the pool, or {_DIRECT}"
        return f"did not answer within {ANSWER_TIMEOUT_S:g} s"

    def _read_tables(self, transaction: _Transaction, query: str, values: Any, timeout_ms: int, tables: ReadTables) -> Rows:
        """Look whose code the tables' read would execute, lock them, look again, and read them while they are locked."""
        risk = self._find_risk(transaction, tables)
        try:
            risk = self._find_risk(transaction, tables, before=mark(_LOCK.format(tables=", ".join(tables.written)))) or risk
        except psycopg.errors.WrongObjectType as error:  # neither a table nor a view
            raise ForeignCodeError(DRIVER.describe(error)) from error
        if risk and self.is_pooled:
            raise ForeignCodeError(
                f"{risk}; through a pooler --table does not change that: what such code leaves in the session would stay in the pool"
            )
        transaction.leaves_state = bool(risk)
        return transaction.read(query, values, timeout_ms)._replace(risk=risk)

    def _find_risk(self, transaction: _Transaction, tables: ReadTables, *, before: str = "") -> str:
        """Return what of others a read would execute; raises `ForeignCodeError` if the user did not accept that."""
        values = {"schema": tables.schema, "names": list(tables.names)}
        risk = describe_hazards(transaction.read(mark(HAZARDS), values, STATEMENT_TIMEOUT_MS, before=before).rows)
        if risk and not tables.is_risk_accepted:
            raise ForeignCodeError(risk)
        return risk

    @contextmanager
    def _transaction(self) -> Iterator[_Transaction]:
        """A transaction that is rolled back at its end. A session in which it may have left something is replaced by a new one."""
        transaction = _Transaction(self._connection, self._server_time)
        try:
            yield transaction
        finally:
            self.rolled_back += 1
            transaction.roll_back()
            if transaction.leaves_state:
                self.close()
                self._connect()

    def _is_lost(self, error: psycopg.Error) -> bool:
        return self._connection.closed or (error.sqlstate or "").startswith(_OUT_OF_REACH)

    def _connect(self) -> None:
        self.is_pooled = True  # until a server has answered: one that does not is more likely a pool without a free connection
        try:
            self._connection = self._open(_PASSED_ON_BY_A_SERVER)
        except psycopg.OperationalError as error:
            if _NOT_PASSED_ON not in str(error):
                raise ServerGoneError(self.name, _explain_refusal(error)) from error
            self._connect_through_pooler()
            return
        except psycopg.Error as error:
            raise ServerGoneError(self.name, DRIVER.describe(error)) from error
        if not self._passes_on_parameters():
            self.close()
            self._connect_through_pooler()
            return
        self.is_pooled = False
        self._connection.prepare_threshold = 0  # every query is repeated: prepare it the first time

    def _connect_through_pooler(self) -> None:
        try:
            self._connection = self._open("")
            self.execute("SELECT 1")
        except _SETTINGS_FAILED as error:
            self.close()
            raise NotCarriedOutError(
                f"{self.endpoint.host}:{self.endpoint.port} does not keep a transaction read-only and within its limits "
                f"({DRIVER.describe(error)}), so it is not observed; {_DIRECT}"
            ) from error
        except (psycopg.Error, ServerGoneError) as error:
            words = DRIVER.describe(error) if isinstance(error, psycopg.Error) else str(error)
            if _NO_TRANSACTIONS in words:
                raise NotCarriedOutError(
                    f"{self.endpoint.host}:{self.endpoint.port} is a pooler in statement mode, in which no transaction can be read-only, so it is "
                    f"not observed; {_DIRECT}, or that of a pool in session or transaction mode"
                ) from error
            raise ServerGoneError(self.name, f"through a pooler: {words}") from error

    def _passes_on_parameters(self) -> bool:
        """Whether the session has the parameter that it was opened with."""
        query = "SHOW default_transaction_read_only"
        try:
            with self._answered_in_time():
                row = self._connection.execute(query).fetchone()
        except psycopg.Error as error:
            self.close()
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
