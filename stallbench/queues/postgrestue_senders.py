"""How the statements of an operation reach PostgreSQL: one by one or pipelined, by libpq or by psycopg's cursors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import RawCursor

from stallbench.queues.postgres_session import PostgresSession
from stallbench.queues.sql_session import Outcome, Value

Call = tuple[str, tuple[Value, ...]]
"""A statement's name and its parameters."""


class StatementSender(ABC):
    """Sends named statements on one connection in autocommit; values come back as text or as psycopg makes them."""

    def __init__(self, session: PostgresSession, statements: Mapping[str, str], *, pipeline: bool) -> None:
        """Serve the session's connection; ``pipeline``: whether the statements given to `send` are pipelined."""
        self._session = session
        self._statements = statements
        self._is_pipelined = pipeline

    @abstractmethod
    def send(self, *calls: Call) -> list[Outcome]:
        """Run the statements in order and return their results. Raises the `psycopg.Error` of the first that failed."""


class LibpqSender(StatementSender):
    """Prepared statements without a cursor, so that the cost of cursors is not attributed to the queue."""

    def send(self, *calls: Call) -> list[Outcome]:
        """See the base class."""
        texts = [(self._statements[name], [_as_bytes(value) for value in values]) for name, values in calls]
        if self._is_pipelined and len(texts) > 1:
            results = self._session.execute_at_once(texts)
        else:
            results = [self._session.execute(statement, values) for statement, values in texts]
        return [
            Outcome(
                [
                    tuple(_as_text(result.get_value(row, column)) for column in range(result.nfields))
                    for row in range(result.ntuples)
                ],
                result.command_tuples or 0,
            )
            for result in results
        ]


class CursorSender(StatementSender):
    """A cursor for each statement, prepared by psycopg, and psycopg's own pipeline."""

    def send(self, *calls: Call) -> list[Outcome]:
        """See the base class."""
        if not self._is_pipelined or len(calls) == 1:
            return [_fetch(self._execute(call)) for call in calls]
        with self._session.connection.pipeline():
            cursors = [self._execute(call) for call in calls]
        return [_fetch(cursor) for cursor in cursors]

    def _execute(self, call: Call) -> RawCursor[tuple[Any, ...]]:
        name, values = call
        return RawCursor(self._session.connection).execute(self._statements[name], values or None, prepare=True)


SENDERS: dict[str, type[StatementSender]] = {"libpq": LibpqSender, "cursor": CursorSender}
"""By the option ``client``."""


def array(values: Sequence[Value]) -> str:
    """Return an array in PostgreSQL's own notation."""
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def _fetch(cursor: RawCursor[tuple[Any, ...]]) -> Outcome:
    rows = cursor.fetchall() if cursor.description else []
    return Outcome(rows, max(cursor.rowcount, 0))


def _as_bytes(value: Value) -> bytes | None:
    return None if value is None else str(value).encode()


def _as_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
