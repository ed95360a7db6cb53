"""The counts of PostgreSQL's statements, by ``pg_stat_statements``.

Buffers are the most stable of them: how many pages a statement reads depends on the data alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stallbench.engines.collectors.statement_counts import StatementCounts, StatementCountsCollector
from stallbench.engines.postgres.literals import LITERALS
from stallbench.engines.postgres.trust import Extension, find_extension

_LONGEST_READ = 20_000
"""Characters of a statement that are enough to recognise a claim. The server keeps statements of any length."""
COUNTING_EXTENSION = "pg_stat_statements"
_IS_LOADED = "SELECT pg_catalog.current_setting('pg_stat_statements.max', true) IS NOT NULL"
_RESET_TIME_SINCE = [1, 9]
_COUNTS = """
SELECT queryid, pg_catalog.sum(calls)::bigint, pg_catalog.sum({time}), pg_catalog.sum(rows)::bigint, pg_catalog.sum(shared_blks_hit + shared_blks_read)::bigint
FROM {schema}.pg_stat_statements(showtext := false)
WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) AND queryid IS NOT NULL
GROUP BY queryid
"""
_TEXTS = """
SELECT queryid, pg_catalog.min(pg_catalog.left(query, {longest}))
FROM {schema}.pg_stat_statements(showtext := true)
WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) AND queryid = ANY(%s)
GROUP BY queryid
"""


def has_reset_time(extension: Extension) -> bool:
    """Whether ``pg_stat_statements`` says when its counts were reset."""
    return extension.version >= _RESET_TIME_SINCE


def counts_statements(connection: Any) -> bool:
    """Whether the server has loaded ``pg_stat_statements``; a database also needs the extension."""
    return bool(connection.execute(_IS_LOADED).fetchone() == (True,))


def find_counting_extension(connection: Any) -> Extension | None:
    """Return the extension; none if the server counts no statements in this database, or its functions are not to be called (`Extension.untrusted`)."""
    extension = find_extension(connection, COUNTING_EXTENSION, COUNTING_EXTENSION)
    return extension if extension and not extension.untrusted and counts_statements(connection) else None


def read_statement_counts(connection: Any) -> list[StatementCounts] | None:
    """Return the counts of every statement of a PostgreSQL database that the user may see; none if the server counts no statements."""
    extension = find_counting_extension(connection)
    if extension is None:
        return None
    time = "total_exec_time" if extension.version >= [1, 8] else "total_time"
    query = _COUNTS.format(schema=extension.schema, time=time)
    return [StatementCounts(*row) for row in connection.execute(query).fetchall()]


def read_statement_texts(connection: Any, statements: Sequence[int | str]) -> list[tuple[int | str, str | None]]:
    """Return the text of each statement, without its values; PostgreSQL reads the file with all texts for it."""
    extension = find_counting_extension(connection)
    if extension is None:  # dropped since the counts were read
        return []
    rows: list[tuple[int | str, str | None]] = connection.execute(
        _TEXTS.format(schema=extension.schema, longest=_LONGEST_READ), (statements,)
    ).fetchall()
    return rows


class StatementsCollector(StatementCountsCollector):
    """Reads the counts of the statements that took the most time, and of all claim statements together."""

    name = "statements"
    roles = ("primary", "replica")
    literals = LITERALS

    def read_counts(self, connection: Any) -> list[StatementCounts] | None:
        """Return them; none if the server counts no statements."""
        return read_statement_counts(connection)

    def read_texts(self, connection: Any, statements: Sequence[int | str]) -> Iterable[tuple[int | str, str | None]]:
        """Return the text of each statement, without its values."""
        return read_statement_texts(connection, statements)
