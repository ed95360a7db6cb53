"""The tables in docs/libraries.md of scenarios of reported failures: idle workers, and many jobs of another queue in the same table."""

from __future__ import annotations

from tools.library_tables.allowed_changes import AllowedChanges
from tools.library_tables.columns import make_figures
from tools.library_tables.comparisons import LibraryTable

WORKERS = {"workers.count": 4}
"""As many processes as in the other tables, and as the page states; the scenario has sixteen."""
IDLE_TABLE = LibraryTable(
    name="idle-cost",
    scenario="idle-cost",
    load="any",
    allowed=AllowedChanges(stated=WORKERS),
    columns=make_figures(
        ("idle",),
        {
            "claim statements per second": "claim_statement_calls.rate",
            "server CPU, %": "server_cpu_percent.mean",
            "pickup p50, ms": "pickup_ms.p50",
            "pickup p95, ms": "pickup_ms.p95",
            "connections": "connections.max",
        },
    ),
)
BACKLOG_TABLE = LibraryTable(
    name="deep-backlog",
    scenario="deep-backlog",
    load="any",
    allowed=AllowedChanges(),
    find_lack=lambda library: library.no_other_jobs,
    columns=make_figures(
        ("baseline", "backlog"),
        {
            "claim statement, ms": "claim_statement_ms.mean",
            "buffers per claim": "claim_statement_buffers.per_call",
            "pickup p95, ms": "pickup_ms.p95",
            "latency p95, ms": "latency_ms.p95",
            "oldest job at the end, s": "oldest_job_s.last",
            "server CPU, %": "server_cpu_percent.mean",
        },
    ),
)
