"""The tables in docs/libraries.md of comparisons in which an idle transaction holds the horizon."""

from __future__ import annotations

from tools.library_tables.allowed_changes import AllowedChanges
from tools.library_tables.columns import CAPACITY, HELD, LOAD, SATURATION, Column, CostOfOldVersions, Figure
from tools.library_tables.comparisons import LibraryTable
from tools.library_tables.library_run import BASELINE

JOBS = {f"phases.{HELD}.jobs": 10_000}
"""How long the phase lasts, as the page states: how much a library degrades depends on it."""
JOBS_AT_COMMON_LOAD = {f"phases.{HELD}.jobs": 2_500}
"""The load is half of what the slowest library can do, so that these take a minute."""
JOBS_ON_MARIADB = {f"phases.{HELD}.jobs": 6_000}
"""As the page states: with it, the phase lasts its minimum of a minute, except for a library that is as slow as django-tasks-db."""
_UNTIL = {f"phases.{HELD}.until": "duration"}
_US_PER_MS = 1000
_TIMES = (
    Figure(title="pickup p95, ms", metric="pickup_ms.p95", includes_enqueueing=True),
    Figure(title="latency p95, ms", metric="latency_ms.p95", includes_enqueueing=True),
    Figure(title="claim statement, ms", metric="claim_statement_ms.mean"),
)
_CONNECTIONS = Figure(title="connections", metric="connections.max", phases=(BASELINE,))
_ON_POSTGRES: tuple[Column, ...] = (
    *_TIMES,
    Figure(title="buffers per claim", metric="claim_statement_buffers.per_call"),
    Figure(title="dead tuples per job", metric="dead_tuples.per_job", phases=(HELD,)),
    CostOfOldVersions(title="buffers per claim and 1,000 dead tuples", metric="claim_statement_buffers.per_call"),
    CostOfOldVersions(title="µs per claim and 1,000 dead tuples", metric="claim_statement_ms.mean", times=_US_PER_MS),
    Figure(title="WAL per job, bytes", metric="wal_bytes.per_job", phases=(BASELINE,)),
    _CONNECTIONS,
)
_ON_MARIADB: tuple[Column, ...] = (
    *_TIMES,
    Figure(title="history list length per job", metric="history_list_length.per_job", phases=(HELD,)),
    CostOfOldVersions(
        title="µs per claim and 1,000 of history list length",
        metric="claim_statement_ms.mean",
        old_versions="history_list_length",
        times=_US_PER_MS,
    ),
    _CONNECTIONS,
)
HELD_TABLES = (
    LibraryTable(
        name="longtx",
        scenario="longtx",
        load="own",
        allowed=AllowedChanges(stated=JOBS, harmless=_UNTIL),
        columns=(CAPACITY, *_ON_POSTGRES, SATURATION),
    ),
    LibraryTable(
        name="longtx-common",
        scenario="longtx",
        load="common",
        allowed=AllowedChanges(stated=JOBS_AT_COMMON_LOAD, harmless=_UNTIL),
        columns=(CAPACITY, LOAD, *_ON_POSTGRES, SATURATION),
    ),
    LibraryTable(
        name="longtx-replica",
        scenario="longtx-replica",
        load="own",
        allowed=AllowedChanges(stated=JOBS),
        columns=(CAPACITY, *_ON_POSTGRES, SATURATION),
    ),
    LibraryTable(
        name="longtx-innodb",
        scenario="longtx-innodb",
        load="own",
        allowed=AllowedChanges(stated=JOBS_ON_MARIADB),
        columns=(CAPACITY, *_ON_MARIADB, SATURATION),
        engine="mariadb",
    ),
)
