"""The base of queues that run on PostgreSQL only: named statements, bulk inserts, large results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg import RawCursor, errors
from psycopg.pq.abc import PGresult

from stallbench.queues.postgres_session import PostgresSession
from stallbench.queues.queue import Backlog, OptionsT, Queue, RefusedError


class PostgresQueue(Queue[OptionsT]):
    """A queue through a psycopg connection in autocommit. Subclasses provide the statements."""

    engines = frozenset({"postgres"})
    statements: dict[str, str]
    """The queue's statements by name, as `read_statements` gives them, with PostgreSQL's own placeholders."""
    connection: psycopg.Connection[tuple[Any, ...]]

    def __init__(self, connection: Any, options: OptionsT) -> None:
        """Serve ``connection``; statements are prepared on it when they are first used."""
        super().__init__(connection, options)
        self.session = PostgresSession(connection)

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Observe the session."""
        self.session.observe_answers(call)

    def execute(self, name: str, *parameters: bytes | None) -> PGresult:
        """Run the statement ``name`` with ``parameters`` in text format and wait for its result; raises `psycopg.Error`."""
        return self.session.execute(self.statements[name], parameters)

    def insert(self, name: str, rows: Sequence[Sequence[bytes | None]]) -> Sequence[int]:
        """Run what returns one id first, like ``INSERT .. RETURNING``, for each of ``rows``; several share one transaction and one round trip.

        Raises `RefusedError` if the server's disk is full.
        """
        try:
            return [read_int(self.execute(name, *rows[0]), 0)] if len(rows) == 1 else self._insert_many(name, rows)
        except errors.DiskFull as error:
            raise RefusedError(f"the server's disk is full: {error.diag.message_primary}") from error

    def _insert_many(self, name: str, rows: Sequence[Sequence[bytes | None]]) -> Sequence[int]:
        texts = [[None if value is None else value.decode() for value in row] for row in rows]
        ids = []
        try:
            with self.connection.transaction(), RawCursor(self.connection) as cursor:
                cursor.executemany(self.statements[name], texts, returning=True)
                for result in cursor.results():
                    row = result.fetchone()
                    assert row is not None, f"{name} returned no row"
                    ids.append(int(row[0]))
        except psycopg.Error:
            if not self.connection.closed:
                self.session.prepare_again()
            raise
        self.session.answered()
        return ids

    def copy(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Send ``rows`` to the statement ``name``, a ``COPY .. FROM STDIN``."""
        self.session.copy(self.statements[name], rows)

    def take_ids(self, count: int) -> Sequence[int]:
        """Return ``count`` new ids in ascending order, by the statement ``take_ids``."""
        result = self.execute("take_ids", b"%d" % count)
        return [int(result.get_value(row, 0) or 0) for row in range(result.ntuples)]

    def stream(self, name: str) -> Iterator[Sequence[Any]]:
        """Iterate over a result of any size."""
        return self.session.stream(self.statements[name])


def read_text(result: PGresult, column: int) -> bytes:
    """Return a value of the first row, in text format; it must not be null."""
    value = result.get_value(0, column)
    assert value is not None, f"column {column} is null"
    return value


def read_row(result: PGresult, row: int, columns: int) -> list[bytes]:
    """Return the first ``columns`` values of a row, in text format; none may be null."""
    values = [result.get_value(row, column) for column in range(columns)]
    assert None not in values, f"row {row} has a null"
    return [value for value in values if value is not None]


def read_int(result: PGresult, column: int) -> int:
    """Return a whole number of the first row."""
    return int(read_text(result, column))


def read_backlog(result: PGresult) -> Backlog:
    """Return depth and age of the oldest job from a row of the two."""
    age_s = result.get_value(0, 1)
    return Backlog(depth=read_int(result, 0), oldest_job_s=None if age_s is None else float(age_s))
