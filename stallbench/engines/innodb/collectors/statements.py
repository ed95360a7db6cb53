"""Which statement takes the server's time, on MariaDB and MySQL: the counts of the performance schema.

It counts no buffers. A claim that reads past rows which purge has not removed shows in its time alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import pymysql

from stallbench.engines.collectors.document import CollectorsDocument
from stallbench.engines.collectors.statement_counts import StatementCounts, StatementCountsCollector
from stallbench.engines.innodb.literals import LITERALS

_IS_COUNTED = "SELECT @@performance_schema, floor(unix_timestamp())"
# Times are picoseconds. A statement without a digest is one that came when the table was full.
_COUNTS = """
SELECT digest, count_star, sum_timer_wait / 1e9, sum_rows_sent + sum_rows_affected
FROM performance_schema.events_statements_summary_by_digest
WHERE schema_name = database() AND digest IS NOT NULL AND unix_timestamp(last_seen) >= %s
"""
_TEXTS = """
SELECT digest, digest_text
FROM performance_schema.events_statements_summary_by_digest
WHERE schema_name = database() AND digest IN %s
"""
_OVERLAP_S = 2
"""MariaDB keeps the second in which a statement was last called."""
_BEFORE_PUNCTUATION = re.compile(r" (?=[,).])|(?<=[(.]) ")
"""A digest has a space around everything; statements are recognised as they are usually written."""


@dataclass(slots=True)
class _Known:
    """What the reading before has found."""

    since_s: int = 0
    """Statements that were not called since then are known, in seconds of the server's clock."""
    counts: dict[str, StatementCounts] = field(default_factory=dict)


class DigestCounts:
    """The counts of every statement. Applications leave ten thousand of them, so after the first reading of a session only those that were called since
    are fetched.
    """

    def __init__(self) -> None:
        """Know nothing of any session."""
        self._known: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()

    def read(self, connection: Any) -> list[StatementCounts] | None:
        """Return them; none if the server runs without its performance schema."""
        known = self._known.setdefault(connection, _Known())
        with connection.cursor() as cursor:
            cursor.execute(_IS_COUNTED)
            is_counted, now_s = cursor.fetchone()
            if is_counted != 1:
                return None
            called = _fetch_counts(cursor, known.since_s)
            if any(counts.calls < known.counts[digest].calls for digest, counts in called.items() if digest in known.counts):
                known.counts, called = {}, _fetch_counts(cursor, 0)  # somebody has reset the counts
        known.counts |= called
        known.since_s = int(now_s) - _OVERLAP_S
        return list(known.counts.values())


def _fetch_counts(cursor: Any, since_s: int) -> dict[str, StatementCounts]:
    cursor.execute(_COUNTS, (since_s,))
    return {
        digest: StatementCounts(digest, int(calls), float(total_ms), int(rows), None)
        for digest, calls, total_ms, rows in cursor.fetchall()
    }


def read_digest_texts(connection: Any, statements: Sequence[int | str]) -> list[tuple[int | str, str | None]]:
    """Return the text of each statement, without its values."""
    with connection.cursor() as cursor:
        cursor.execute(_TEXTS, (statements,))
        return [(digest, _BEFORE_PUNCTUATION.sub("", text or "")) for digest, text in cursor.fetchall()]


class InnoDBStatementsCollector(StatementCountsCollector):
    """Reads the counts of the statements that took the most time, and of all claim statements together."""

    name = "innodb_statements"
    roles = ("primary", "replica")
    literals = LITERALS

    def __init__(self, document: CollectorsDocument) -> None:
        """Know no statement yet."""
        super().__init__(document)
        self._digests = DigestCounts()

    def read_counts(self, connection: pymysql.Connection) -> list[StatementCounts] | None:
        """Return the counts of every statement; none if the server runs without its performance schema."""
        return self._digests.read(connection)

    def read_texts(
        self, connection: pymysql.Connection, statements: Sequence[int | str]
    ) -> Iterable[tuple[int | str, str | None]]:
        """Return the text of each statement, without its values."""
        return read_digest_texts(connection, statements)
