"""Statements on PostgreSQL, by prepared statements of libpq, through `psycopg.pq`.

psycopg's cursor takes as much time as the server needs for a claim. If client and server share a machine, this time would be attributed to the
queue.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg import RawServerCursor, errors
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from stallbench.engines.postgres.error_codes import DEADLOCK, LOCK_TIMEOUT, SERIALIZATION_FAILURE
from stallbench.queues.sql_session import Outcome, SqlSession, Value, repeat_values

_ROWS_A_FETCH = 10_000
_CHECK_S = 0.1
"""How often a process that waits for a notification checks whether it is to end; this does not concern the server."""
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_CONFLICTS = frozenset({DEADLOCK, LOCK_TIMEOUT, SERIALIZATION_FAILURE})
"""Deadlock, lock not available, serialization failure."""


class PostgresSession(SqlSession):
    """A psycopg connection in autocommit; each statement is prepared when it is first used."""

    engine_family = "postgres"
    connection: psycopg.Connection[tuple[Any, ...]]

    def __init__(self, connection: Any) -> None:
        """Serve ``connection``."""
        super().__init__(connection)
        self._prepared: dict[str, bytes] = {}
        self._gives_way = _is_select_patched()
        self._exec_prepared: Callable[[bytes, Sequence[bytes | None]], PGresult] = connection.pgconn.exec_prepared

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Call ``call`` from now on when the server has answered. Only then does a statement cost the call of another function."""
        super().observe_answers(call)
        run: Callable[..., PGresult] = self.connection.pgconn.exec_prepared

        def run_observed(name: bytes, parameters: Sequence[bytes | None]) -> PGresult:
            result = run(name, parameters)
            call()
            return result

        self._exec_prepared = run_observed

    def execute(self, statement: str, parameters: Sequence[bytes | None]) -> PGresult:
        """Run a statement with ``$1``.. for its parameters, which are in text format, and wait for its result.

        Raises the `psycopg.Error` that belongs to the server's SQLSTATE, or `psycopg.OperationalError` when the connection is gone.
        """
        name = self._prepared.get(statement)
        if name is None or self._gives_way:
            return self._execute_first_or_giving_way(statement, parameters)
        result = self._exec_prepared(name, parameters)
        if result.status not in _GOOD:
            _check(result)
        return result

    def _execute_first_or_giving_way(self, statement: str, parameters: Sequence[bytes | None]) -> PGresult:
        """Execute an unusual statement: one that is not prepared yet, or never is, or one for which other greenlets must not wait."""
        pgconn = self.connection.pgconn
        if self._prepares:
            result = self._run_one(pgconn.exec_prepared, pgconn.send_query_prepared, self._prepare(statement), parameters)
        else:
            result = self._run_one(pgconn.exec_params, pgconn.send_query_params, statement.encode(), parameters)
        self.answered()
        return result

    def _run_one(self, run: Callable[..., PGresult], send: Callable[..., None], *arguments: object) -> PGresult:
        """Make one call of libpq: by ``run``, or by ``send`` and a wait during which other greenlets of this thread run."""
        if self._gives_way:
            send(*arguments)
            return _take_only_result(self.connection.pgconn)
        result = run(*arguments)
        _check(result)
        return result

    def execute_at_once(self, calls: Sequence[tuple[str, Sequence[bytes | None]]]) -> list[PGresult]:
        """Send statements in libpq's pipeline mode, and wait for all results.

        Raises the error of the first statement that failed, as `execute` does; the server has not run the statements after it.
        """
        names = [self._prepare(statement) if self._prepares else b"" for statement, _ in calls]
        pgconn = self.connection.pgconn
        pgconn.enter_pipeline_mode()
        for name, (statement, parameters) in zip(names, calls, strict=True):
            if self._prepares:
                pgconn.send_query_prepared(name, parameters)
            else:
                pgconn.send_query_params(statement.encode(), parameters)
        pgconn.pipeline_sync()
        wait = _wait_giving_way if self._gives_way else _leave_it_to_libpq
        results = [_take_result(pgconn, is_last=False, wait=wait) for _ in calls]
        _take_result(pgconn, is_last=True, wait=wait)
        pgconn.exit_pipeline_mode()
        self.answered()
        for result in results:
            _check(result)
        return results

    @property
    def _prepares(self) -> bool:
        """Whether statements are prepared by name; in psycopg no threshold means no prepared statements."""
        return self.connection.prepare_threshold is not None

    def _prepare(self, statement: str) -> bytes:
        """Return the name under which the server has the statement prepared."""
        name = self._prepared.get(statement)
        if name is None:
            name = b"stallbench_%d" % len(self._prepared)
            pgconn = self.connection.pgconn
            self._run_one(pgconn.prepare, pgconn.send_prepare, name, statement.encode())
            self._prepared[statement] = name
        return name

    def prepare_again(self) -> None:
        """Prepare all statements again at their next use: psycopg deallocates them after it has rolled back a transaction."""
        self.connection.execute("DEALLOCATE ALL", prepare=False)  # prepared, it would deallocate itself
        self._prepared.clear()

    def run(self, statement: str, *parameters: Value) -> Outcome:
        """Run a statement; see the base class. All values are text."""
        result = self.execute(_numbered(statement), [None if value is None else str(value).encode() for value in parameters])
        rows = [tuple(_text(result.get_value(row, column)) for column in range(result.nfields)) for row in range(result.ntuples)]
        return Outcome(rows, result.command_tuples or 0)

    def insert(self, statement: str, rows: Sequence[Sequence[Value]]) -> Sequence[int]:
        """Insert all rows by one statement."""
        repeated = repeat_values(statement, len(rows))
        outcome = self.run(f"{repeated} RETURNING id", *(value for row in rows for value in row))
        return [int(row[0]) for row in outcome.rows]

    def copy(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Send rows to a ``COPY .. FROM STDIN``."""
        with self.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> Sequence[int]:
        """Take ids from the table's own sequence, and copy."""
        outcome = self.run(
            "SELECT nextval(pg_get_serial_sequence(?::text, 'id')) FROM generate_series(1, ?::bigint)", table, len(rows)
        )
        ids = [int(row[0]) for row in outcome.rows]
        copied = ((job_id, *row) for job_id, row in zip(ids, rows, strict=True))
        self.copy(f"COPY {table} ({', '.join(('id', *columns))}) FROM STDIN", copied)
        return ids

    def wait_for_notification(self, timeout_s: float, pause: Callable[[float], bool]) -> bool:
        """Wait until the session receives a notification, and take all that there are; returns whether there was one.

        ``pause`` waits for so many seconds and returns true if it is time to end. Raises `psycopg.OperationalError` if the connection is gone.
        """
        pgconn, until_s = self.connection.pgconn, time.monotonic() + timeout_s
        while True:
            pgconn.consume_input()
            if pgconn.notifies():
                while pgconn.notifies():
                    pass
                return True
            left_s = until_s - time.monotonic()
            if left_s <= 0 or pause(0):
                return False
            select.select([pgconn.socket], [], [], min(left_s, _CHECK_S))

    def stream(self, statement: str, *parameters: Value) -> Iterator[Sequence[Any]]:
        """Fetch by a server-side cursor."""
        with self.connection.transaction(), RawServerCursor(self.connection, "stallbench") as cursor:
            cursor.itersize = _ROWS_A_FETCH
            yield from cursor.execute(_numbered(statement), parameters)

    def explain(self, statement: str, *parameters: Value) -> str:
        """Return the plan's nodes without their costs, from the outermost in."""
        literals = iter(
            "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value) for value in parameters
        )
        lines = self.run("EXPLAIN (COSTS OFF) " + re.sub(r"\?", lambda _: next(literals), statement)).rows
        return "; ".join(str(line[0]).strip().removeprefix("->").strip() for line in lines)

    def is_conflict(self, error: Exception) -> bool:
        """Deadlock, serialization failure, or lock not available."""
        return getattr(error, "sqlstate", None) in _CONFLICTS

    def is_connection_lost(self, error: Exception) -> bool:
        """As psycopg says."""
        return self.connection.closed

    @property
    def is_in_transaction(self) -> bool:
        """As libpq says."""
        return self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def rollback(self) -> None:
        """Roll back, if a transaction is open: outside one the server only warns, which costs a round trip."""
        if self.is_in_transaction:
            self.run("ROLLBACK")


def _numbered(statement: str) -> str:
    """Write ``$1``, ``$2`` .. for each ``?``."""
    if "?" not in statement:
        return statement
    parts = statement.split("?")
    return "".join(part if number == 0 else f"${number}{part}" for number, part in enumerate(parts))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _is_select_patched() -> bool:
    """Whether a greenlet library (gevent, under Locust) has patched Python's blocking calls.

    libpq would block in C, and with it every other greenlet of the thread.
    """
    return select.select.__module__ != "select"


def _wait_giving_way(pgconn: PGconn) -> None:
    while pgconn.is_busy():
        select.select([pgconn.socket], [], [])
        pgconn.consume_input()


def _leave_it_to_libpq(pgconn: PGconn) -> None:
    """Do not wait: `PGconn.get_result` does."""


def _take_only_result(pgconn: PGconn) -> PGresult:
    """Wait for the result of what was sent outside of a pipeline; raises what `_check` raises."""
    _wait_giving_way(pgconn)
    result = pgconn.get_result()
    if result is None:
        raise psycopg.OperationalError(pgconn.get_error_message())
    try:
        _wait_giving_way(pgconn)
        pgconn.get_result()
    except psycopg.OperationalError:
        _check(result)  # the server's reason for closing the connection, if it sent one
        raise
    _check(result)
    return result


def _take_result(pgconn: PGconn, *, is_last: bool, wait: Callable[[PGconn], None]) -> PGresult:
    """Wait for the next result of a pipeline. After each result except the synchronisation point, libpq returns a null result."""
    wait(pgconn)
    result = pgconn.get_result()
    if result is None or pgconn.status == ConnStatus.BAD:
        raise psycopg.OperationalError(pgconn.get_error_message())
    if not is_last:
        wait(pgconn)
        pgconn.get_result()
    return result


def _check(result: PGresult) -> None:
    if result.status not in _GOOD:
        error = errors.error_from_result(result, encoding="utf-8")
        # Without an SQLSTATE the error comes from libpq, not from the server: the connection is gone.
        raise error if error.sqlstate else psycopg.OperationalError(str(error))


SESSION = PostgresSession
