"""How a queue that runs on several SQL engines sends its statements: one statement text, each engine's own protocol."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

Value = int | str | None

_SESSIONS = {
    "psycopg": "stallbench.queues.postgres_session",
    "pymysql": "stallbench.queues.mysql_session",
    "sqlite3": "stallbench.queues.sqlite_session",
}
"""By the client library of a connection; each is loaded when it is used."""


class Outcome(NamedTuple):
    """The result of a statement."""

    rows: Sequence[Sequence[Any]]
    """Values as the library gives them: PostgreSQL's are all text."""
    affected: int
    """How many rows it changed."""


def _ignore() -> None:
    """Take no notice."""


class SqlSession(ABC):
    """One connection in autocommit. Statements have ``?`` for each parameter, on every engine."""

    blocks_other_writers: ClassVar[bool] = False
    """Whether an open transaction refuses all that other connections would write."""
    engine_family: ClassVar[str]
    """``postgres``, ``mysql`` or ``sqlite``: selects engine-specific statements, like CREATE TABLE."""
    row_lock: ClassVar[str] = "FOR UPDATE"
    """Clause by which a SELECT locks its rows; empty if the engine has none."""
    begin_statement: str = "BEGIN"
    """Statement that begins a transaction; SQLite has others that lock the database at once."""

    def __init__(self, connection: Any) -> None:
        """Serve ``connection``."""
        self.connection = connection
        self.answered: Callable[[], None] = _ignore
        """Called when the server has answered a statement."""

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Call ``call`` from now on when the server has answered a statement."""
        self.answered = call

    @abstractmethod
    def run(self, statement: str, *parameters: Value) -> Outcome:
        """Run a statement and return its result. Raises the library's errors."""

    @abstractmethod
    def insert(self, statement: str, rows: Sequence[Sequence[Value]]) -> Sequence[int]:
        """Run an ``INSERT .. VALUES (..)`` with one group of values for all ``rows`` in one transaction; returns their ids in order."""

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> Sequence[int]:
        """Insert many rows in one transaction as quickly as the engine can; returns their ids (column ``id``) in order."""
        marks = ", ".join("?" * len(columns))
        return self.insert(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    @abstractmethod
    def stream(self, statement: str, *parameters: Value) -> Iterator[Sequence[Any]]:
        """Iterate over a result of any size."""

    @abstractmethod
    def explain(self, statement: str, *parameters: Value) -> str:
        """Return the server's plan for a statement in one line, without running it."""

    @abstractmethod
    def is_conflict(self, error: Exception) -> bool:
        """Whether the server aborted this transaction because of a conflict: deadlock, lock timeout, busy database."""

    @abstractmethod
    def is_connection_lost(self, error: Exception) -> bool:
        """Whether the connection cannot be used after the error."""

    @property
    @abstractmethod
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open, as far as the library knows without asking the server."""

    def begin(self) -> None:
        """Begin a transaction."""
        self.run(self.begin_statement)

    def commit(self) -> None:
        """Commit it."""
        self.run("COMMIT")

    def rollback(self) -> None:
        """Roll back; without a transaction it does nothing."""
        self.run("ROLLBACK")


def open_session(connection: Any) -> SqlSession:
    """Return the session for the client library of ``connection``."""
    library = type(connection).__module__.split(".")[0]
    session: SqlSession = importlib.import_module(_SESSIONS[library]).SESSION(connection)
    return session


def repeat_values(statement: str, times: int) -> str:
    """Return an INSERT of one row with its group of values written ``times`` times."""
    opening, keyword, rest = statement.partition("VALUES ")
    group, closing, ending = rest.partition(")")
    return f"{opening}{keyword}{', '.join([group + closing] * times)}{ending}"
