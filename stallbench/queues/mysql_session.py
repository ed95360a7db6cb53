"""Statements on MariaDB and MySQL, through PyMySQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pymysql
from pymysql.constants import SERVER_STATUS
from pymysql.cursors import SSCursor

from stallbench.engines.innodb.driver import DRIVER
from stallbench.engines.innodb.error_codes import DEADLOCK, LOCK_TIMEOUT, SESSION_ENDED
from stallbench.queues.sql_session import Outcome, SqlSession, Value, repeat_values

_CONFLICTS = frozenset({DEADLOCK, LOCK_TIMEOUT})


class MySQLSession(SqlSession):
    """PyMySQL writes parameters into the statement itself, as Laravel's PDO does for MySQL by default."""

    engine_family = "mysql"

    def __init__(self, connection: Any) -> None:
        """Serve ``connection`` by one cursor."""
        super().__init__(connection)
        self._cursor = connection.cursor()

    def run(self, statement: str, *parameters: Value) -> Outcome:
        """Run a statement; see the base class."""
        affected = self._cursor.execute(statement.replace("?", "%s"), parameters or None)
        outcome = Outcome(self._cursor.fetchall() or (), affected)
        self.answered()
        return outcome

    def insert(self, statement: str, rows: Sequence[Sequence[Value]]) -> Sequence[int]:
        """Insert all rows by one statement: InnoDB gives the rows of one such statement consecutive ids."""
        self.run(repeat_values(statement, len(rows)), *(value for row in rows for value in row))
        first = self._cursor.lastrowid
        return range(first, first + len(rows))

    def stream(self, statement: str, *parameters: Value) -> Iterator[Sequence[Any]]:
        """Fetch row by row."""
        with SSCursor(self.connection) as cursor:
            cursor.execute(statement.replace("?", "%s"), parameters or None)
            yield from cursor

    def explain(self, statement: str, *parameters: Value) -> str:
        """Return access type, index, estimated rows and remarks of each table."""
        rows = self.run(f"EXPLAIN FORMAT=TRADITIONAL {statement}", *parameters).rows
        names = [column[0].lower() for column in self._cursor.description]
        tables = [dict(zip(names, row, strict=True)) for row in rows]
        return "; ".join(
            f"{row['table']}: {row['type']} by {row['key'] or 'no index'}, {row['rows']} rows {row['extra'] or ''}".strip()
            for row in tables
        )

    @property
    def is_in_transaction(self) -> bool:
        """As the latest answer says."""
        return bool(self.connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)

    def is_conflict(self, error: Exception) -> bool:
        """Whether the server broke a deadlock, or waited too long for a lock."""
        return isinstance(error, pymysql.Error) and DRIVER.code(error) in _CONFLICTS

    def is_connection_lost(self, error: Exception) -> bool:
        """Lost by its number, or closed by PyMySQL."""
        has_ended = DRIVER.code(error) in SESSION_ENDED or isinstance(error, pymysql.InterfaceError)
        return has_ended or not self.connection.open


SESSION = MySQLSession
