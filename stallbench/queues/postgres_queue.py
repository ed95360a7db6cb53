"""What queues on PostgreSQL have in common: how a statement is sent, how many rows go in at once, how a large table is read.

The moves of a job go through libpq's prepared statements directly, by psycopg's `psycopg.pq`: a cursor costs as much time as the
server takes for a claim, and on a machine that client and server share that would be measured as the queue's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import psycopg
from psycopg import RawCursor, RawServerCursor, errors
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from stallbench.queues.queue import Backlog, OptionsT, Queue

_ROWS_A_FETCH = 10_000
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


class PostgresQueue(Queue[OptionsT]):
    """A queue through a psycopg connection in autocommit. Subclasses say what the statements are."""

    engines = frozenset({"postgres"})
    statements: ClassVar[dict[str, str]]
    """The queue's statements by name, as `read_statements` gives them."""
    connection: psycopg.Connection[tuple[Any, ...]]

    def __init__(self, connection: Any, options: OptionsT) -> None:
        """Serve ``connection``; statements are prepared on it when they are first used."""
        super().__init__(connection, options)
        self._prepared: set[str] = set()

    def execute(self, name: str, *parameters: bytes | None) -> PGresult:
        """Run the statement ``name`` with ``parameters`` in text format and wait for its result.

        Raises the `psycopg.Error` that belongs to the server's SQLSTATE, or `psycopg.OperationalError` when the connection
        is gone.
        """
        pgconn = self.connection.pgconn
        if name not in self._prepared:
            self._check(pgconn.prepare(name.encode(), self.statements[name].encode()))
            self._prepared.add(name)
        result = pgconn.exec_prepared(name.encode(), parameters)  # type: ignore[arg-type] # None is SQL's null
        self._check(result)
        return result

    def insert(self, name: str, rows: Sequence[Sequence[bytes | None]]) -> Sequence[int]:
        """Run an ``INSERT .. RETURNING`` of one id for each of ``rows``; several share one transaction and one round trip."""
        if len(rows) == 1:
            return [read_int(self.execute(name, *rows[0]), 0)]
        with self.connection.transaction(), RawCursor(self.connection) as cursor:
            texts = [[None if value is None else value.decode() for value in row] for row in rows]
            cursor.executemany(self.statements[name], texts, returning=True)
            ids = []
            for result in cursor.results():
                row = result.fetchone()
                assert row is not None, f"{name} returned no row"
                ids.append(int(row[0]))
        return ids

    def stream(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Go through a result of any size by a server-side cursor."""
        with (
            self.connection.transaction(),
            RawServerCursor(self.connection, "stallbench") as cursor,
        ):
            cursor.itersize = _ROWS_A_FETCH
            yield from cursor.execute(self.statements[name])

    def _check(self, result: PGresult) -> None:
        if result.status not in _GOOD:
            raise errors.error_from_result(result, encoding="utf-8")


def read_text(result: PGresult, column: int) -> bytes:
    """Return a value of the first row, in text format; it must not be null."""
    value = result.get_value(0, column)
    assert value is not None, f"column {column} is null"
    return value


def read_int(result: PGresult, column: int) -> int:
    """Return a whole number of the first row."""
    return int(read_text(result, column))


def read_backlog(result: PGresult) -> Backlog:
    """Return depth and age of the oldest job from a row of the two."""
    age_s = result.get_value(0, 1)
    return Backlog(depth=read_int(result, 0), oldest_job_s=None if age_s is None else float(age_s))
