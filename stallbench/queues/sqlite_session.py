"""Statements on SQLite, through Python's own library."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from stallbench.queues.sql_session import Outcome, SqlSession, Value


class SQLiteSession(SqlSession):
    """Python's library caches the prepared statements."""

    blocks_other_writers = True
    engine_family = "sqlite"
    row_lock = ""

    def run(self, statement: str, *parameters: Value) -> Outcome:
        """Run a statement; see the base class."""
        cursor = self.connection.execute(statement, parameters)
        outcome = Outcome(cursor.fetchall(), max(cursor.rowcount, 0))
        self.answered()
        return outcome

    def insert(self, statement: str, rows: Sequence[Sequence[Value]]) -> Sequence[int]:
        """Insert row by row, in one transaction that takes the writer's lock at once."""
        if len(rows) == 1:
            return [self.connection.execute(statement, rows[0]).lastrowid]
        self.run("BEGIN IMMEDIATE")
        try:
            ids = [self.connection.execute(statement, row).lastrowid for row in rows]
            self.commit()
        except BaseException:
            self.rollback()
            raise
        return ids

    def stream(self, statement: str, *parameters: Value) -> Iterator[Sequence[Any]]:
        """Fetch row by row."""
        yield from self.connection.execute(statement, parameters)

    def explain(self, statement: str, *parameters: Value) -> str:
        """Return the steps of the query plan."""
        return "; ".join(str(row[3]) for row in self.run(f"EXPLAIN QUERY PLAN {statement}", *parameters).rows)

    def rollback(self) -> None:
        """Roll back if a transaction is open: otherwise SQLite reports an error."""
        if self.connection.in_transaction:
            self.run("ROLLBACK")

    @property
    def is_in_transaction(self) -> bool:
        """As the library says."""
        return bool(self.connection.in_transaction)

    def is_conflict(self, error: Exception) -> bool:
        """Another writer was first."""
        return str(getattr(error, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))

    def is_connection_lost(self, error: Exception) -> bool:
        """Only if it has been closed here."""
        return isinstance(error, sqlite3.ProgrammingError)


SESSION = SQLiteSession
