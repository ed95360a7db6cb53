"""Counts the jobs of one queue table.

Every count stops at a limit, and ends after `COUNT_TIMEOUT_MS`: then the server must have read past many dead or finished rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stallbench.observe.postgres.recognition import QueueTable

MOST_COUNTED = 10_000
"""Ready jobs beyond which a count says "at least"."""
MOST_RUNNING = 1_000
COUNT_TIMEOUT_MS = 250
_READY = """
SELECT pg_catalog.count(*), extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(since))::double precision
FROM (SELECT {since} AS since FROM {table} AS job WHERE {where} LIMIT {limit}) AS ready
"""
_RUNNING = """
SELECT pg_catalog.count(*), extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(since))::double precision,
  pg_catalog.count(*) FILTER (WHERE rescue_at < pg_catalog.now())
FROM (SELECT {since} AS since, ({rescue_from}) + ({rescue}) AS rescue_at FROM {table} AS job WHERE {where} LIMIT {limit}) AS running
"""
_ROWS = "SELECT pg_catalog.count(*), NULL::double precision FROM (SELECT FROM {table} LIMIT {limit}) AS present"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """The jobs of one queue; None is unknown."""

    ready: int | None
    oldest_s: float | None
    running: int | None = None
    longest_s: float | None = None
    overdue: int | None = None
    """Running for longer than the rescue interval; none if the library has no such interval."""
    why_not: str = ""
    remedy: str = ""
    """What lets the jobs be counted; empty if the reason alone says it."""
    risk: str = ""
    """Whose code the counts may have executed, because the user named the table."""


def count_jobs(server: Any, table: QueueTable) -> JobCounts:
    """Count the jobs of one queue, with a snapshot of at most `COUNT_TIMEOUT_MS` for each of two queries.

    Raises `ForeignCodeError`, and psycopg's errors; `psycopg.errors.QueryCanceled` if a count takes longer.
    """
    risks: list[str] = []

    def ask(query: str) -> tuple[Any, ...]:
        found = server.execute(query, timeout_ms=COUNT_TIMEOUT_MS, tables=table.read_by(query))
        risks.append(found.risk)
        row = found.fetchone()
        assert row is not None
        return tuple(row)

    known = table.known
    if known is None:
        rows, _ = ask(_ROWS.format(table=table.name, limit=MOST_COUNTED + 1))
        return JobCounts(ready=rows, oldest_s=None, risk=max(risks))
    since = known.ready.since.format(schema=table.schema)
    ready, oldest_s = ask(_READY.format(since=since, table=table.name, where=known.ready.where, limit=MOST_COUNTED + 1))
    if known.running is None:
        return JobCounts(ready=ready, oldest_s=oldest_s, risk=max(risks))
    own = known.running
    values = {
        "since": own.since.format(schema=table.schema),
        "rescue_from": (own.rescue_from or own.since).format(schema=table.schema),
        "rescue": known.rescue or "NULL::interval",
        "table": f"{table.schema}.{own.table}" if own.table else table.name,
        "where": own.where,
        "limit": MOST_RUNNING + 1,
    }
    running, longest_s, overdue = ask(_RUNNING.format(**values))
    return JobCounts(
        ready=ready,
        oldest_s=oldest_s,
        running=running,
        longest_s=longest_s,
        overdue=overdue if known.rescue else None,
        risk=max(risks),
    )
