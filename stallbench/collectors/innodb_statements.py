"""Which statement takes the server's time, on MariaDB and MySQL: the counts of the performance schema.

It counts no buffers. A claim that reads past rows which purge has not removed shows in its time alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pymysql

from stallbench.collectors.collector import INNODB
from stallbench.collectors.statements import StatementCounts, StatementsCollector

_IS_COUNTED = "SELECT @@performance_schema"
# Times are picoseconds. A statement without a digest is one that came when the table was full.
_COUNTS = """
SELECT digest, count_star, sum_timer_wait / 1e9, sum_rows_sent + sum_rows_affected
FROM performance_schema.events_statements_summary_by_digest
WHERE schema_name = database() AND digest IS NOT NULL
"""
_TEXTS = """
SELECT digest, digest_text
FROM performance_schema.events_statements_summary_by_digest
WHERE schema_name = database() AND digest IN %s
"""
_BEFORE_PUNCTUATION = re.compile(r" (?=[,).])|(?<=[(.]) ")
"""A digest has a space around everything; statements are recognised as they are usually written."""


def read_digest_counts(connection: Any) -> list[StatementCounts] | None:
    """Return the counts of every statement; none if the server runs without its performance schema."""
    with connection.cursor() as cursor:
        cursor.execute(_IS_COUNTED)
        if cursor.fetchone() != (1,):
            return None
        cursor.execute(_COUNTS)
        return [
            StatementCounts(digest, int(calls), float(total_ms), int(rows), None)
            for digest, calls, total_ms, rows in cursor.fetchall()
        ]


def read_digest_texts(connection: Any, statements: Sequence[int | str]) -> list[tuple[int | str, str | None]]:
    """Return the text of each statement, without its values."""
    with connection.cursor() as cursor:
        cursor.execute(_TEXTS, (statements,))
        return [(digest, _BEFORE_PUNCTUATION.sub("", text or "")) for digest, text in cursor.fetchall()]


class InnoDBStatementsCollector(StatementsCollector):
    """Reads the counts of the statements that took the most time, and of all claim statements together."""

    name = "innodb_statements"
    engines = INNODB

    def read_counts(self, connection: pymysql.Connection) -> list[StatementCounts] | None:
        """Return the counts of every statement; none if the server runs without its performance schema."""
        return read_digest_counts(connection)

    def read_texts(
        self, connection: pymysql.Connection, statements: Sequence[int | str]
    ) -> Iterable[tuple[int | str, str | None]]:
        """Return the text of each statement, without its values."""
        return read_digest_texts(connection, statements)
