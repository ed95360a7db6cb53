"""PostgreSQL, through psycopg."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.abc import AdaptContext, Buffer
from psycopg.types.string import StrDumperUnknown, TextLoader

from stallbench.engines.driver import CONNECT_TIMEOUT_S, SAMPLING_TIMEOUT_S, Driver
from stallbench.engines.postgres.error_codes import TOO_MANY_CONNECTIONS
from stallbench.records.endpoint import Endpoint
from stallbench.shell_command import format_shell_command
from stallbench.visible_text import VisibleText, make_visible, read_text

Connection = psycopg.Connection[tuple[Any, ...]]

_TOO_MANY_MESSAGES = ("too many clients", "too many connections", "connection slots are reserved")
"""The messages of `TOO_MANY_CONNECTIONS` where libpq gives no SQLSTATE, because the connection was never established."""

_FOR_SAMPLING = f"""
SET statement_timeout = '{SAMPLING_TIMEOUT_S:.0f}s';
SET lock_timeout = '100ms';
SET idle_session_timeout = 0;
SET default_transaction_read_only = on;
SET max_parallel_workers_per_gather = 0;
SET jit = off
"""


def connect(endpoint: Endpoint, name: str) -> Connection:
    """Connect in autocommit, known to the server as the application ``stallbench:<name>``.

    JSON columns are returned as text, because the bench does not parse a queue's payload. Raises `psycopg.OperationalError` when
    the server cannot be reached within `CONNECT_TIMEOUT_S`.
    """
    connection = psycopg.connect(
        **address(endpoint),
        application_name=f"stallbench:{name}",
        connect_timeout=CONNECT_TIMEOUT_S,
        autocommit=True,
    )
    if not endpoint.prepared_statements:
        connection.prepare_threshold = None
    has_no_encoding = connection.info.encoding == "ascii"
    if has_no_encoding:
        read_any_text(connection)
    for kind in ("json", "jsonb"):
        connection.adapters.register_loader(kind, _AnyTextLoader if has_no_encoding else TextLoader)
    return connection


def address(endpoint: Endpoint) -> dict[str, Any]:
    """Return what libpq needs to reach a server: through a proxy it still checks that the certificate is the server's."""
    proxy = (
        {"hostaddr": socket.getaddrinfo(endpoint.proxy_host, endpoint.port, type=socket.SOCK_STREAM)[0][4][0]}
        if endpoint.proxy_host
        else {}
    )
    return {
        "host": endpoint.host,
        **proxy,
        "port": endpoint.port,
        "dbname": endpoint.database,
        "user": endpoint.user,
        "password": endpoint.password.get_secret_value(),
        **endpoint.parameters,
    }


class _AnyTextLoader(TextLoader):
    """Text whose bytes may not be valid in the connection's encoding, or of which no encoding is known: then UTF-8 is the likely one."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._known = self._encoding or "utf-8"

    def load(self, data: Buffer) -> str:
        return str(data, self._known, "replace")


class _VisibleTextLoader(_AnyTextLoader):
    """Text that is shown, never handed back to a queue."""

    def load(self, data: Buffer) -> str:
        return read_text(super().load(data))


class _RawTextDumper(StrDumperUnknown):
    """Hands a name back as the server has it."""

    def dump(self, obj: str) -> Buffer | None:
        assert isinstance(obj, VisibleText), "registered for no other"
        return super().dump(obj.raw)


_KINDS_OF_TEXT = ("text", "varchar", "bpchar", "name", '"char"', 0)
"""0: every type that has no loader of its own."""


def read_any_text(connection: Connection) -> None:
    """Return text from now on whatever its bytes are, with a replacement character for each part that is not valid.

    Without this, psycopg returns bytes from a database without an encoding (SQL_ASCII), where the server does not know the encoding of any text.
    """
    for kind in _KINDS_OF_TEXT:
        connection.adapters.register_loader(kind, _AnyTextLoader)


def read_visible_text(connection: Connection) -> None:
    """Return text from now on as `read_any_text` does, and made visible by `read_text`; for connections of which everything is only shown."""
    for kind in (*_KINDS_OF_TEXT, "json", "jsonb"):
        connection.adapters.register_loader(kind, _VisibleTextLoader)
    connection.adapters.register_dumper(VisibleText, _RawTextDumper)


class PostgresDriver(Driver):
    """psycopg's connections, in autocommit."""

    errors = (psycopg.Error,)

    def connect(self, endpoint: Endpoint, name: str) -> Connection:
        """Connect as `connect` does."""
        return connect(endpoint, name)

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> Connection:
        """Connect for reading only, without parallel workers and JIT, so that the server's processors stay free for the queue."""
        connection = connect(endpoint, name)
        try:
            connection.execute(_FOR_SAMPLING)
            connection.prepare_threshold = 0  # every statement is repeated: prepare it the first time
            read_visible_text(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def is_closed(self, connection: Connection) -> bool:
        """Whether psycopg reports it as closed."""
        return connection.closed

    def read_clock(self, connection: Connection) -> int:
        """Return the time of the call, not of the transaction, with a resolution of 1 µs."""
        row = connection.execute("SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint").fetchone()
        assert row is not None
        return int(row[0]) * 1000

    def vacuum_and_analyze(self, connection: Connection, tables: Sequence[str]) -> None:
        """Vacuum and analyse them, as autovacuum does in its next iteration."""
        names = sql.SQL(", ").join(quote_table(table) for table in tables)
        connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(names))

    def abort(self, connection: Connection) -> None:
        """Shut its socket down."""
        with (
            suppress(OSError, psycopg.Error),  # closed in the meantime, which is the goal
            socket.socket(fileno=os.dup(connection.pgconn.socket)) as copy,
        ):
            copy.shutdown(socket.SHUT_RDWR)

    def console(self, endpoint: Endpoint) -> str:
        """Return a command with psql."""
        password = endpoint.password.get_secret_value()
        words = ["psql", "-h", endpoint.host, "-p", endpoint.port, "-U", endpoint.user, endpoint.database]
        return f"PGPASSWORD={format_shell_command([password])} {format_shell_command(words)}"

    def code(self, error: Exception) -> str:
        """Return the SQLSTATE, if the server sent one. Of errors that libpq leaves without one, that of too many connections is recognised."""
        if code := getattr(error, "sqlstate", None):
            return str(code)
        is_full = isinstance(error, psycopg.OperationalError) and any(words in str(error) for words in _TOO_MANY_MESSAGES)
        return TOO_MANY_CONNECTIONS if is_full else type(error).__name__

    def make_error(self, code: str, message: str) -> Exception:
        """Return the error of an SQLSTATE; for any other code, one that has it in the place of the SQLSTATE."""
        try:
            return psycopg.errors.lookup(code)(message)
        except KeyError:
            error = psycopg.DatabaseError(message)
            error.sqlstate = code
            return error

    def describe(self, error: Exception) -> str:
        """Return the server's own message, if it sent one."""
        words = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        return make_visible(words, in_one_line=True) if words else super().describe(error)


DRIVER = PostgresDriver()


def quote_table(name: str) -> sql.Identifier:
    """Quote the name of a table, with or without its schema: ``jobs``, ``pgmq.q_jobs``."""
    return sql.Identifier(*name.split("."))
