"""The tables in docs/libraries.md of scenarios of reported failures: idle workers, and many jobs of another queue in the same table."""

from __future__ import annotations

from stallbench.comparison.library_columns import Figure
from stallbench.comparison.library_comparisons import LibraryTable
from stallbench.comparison.library_settings import AllowedChanges

WORKERS = {"workers.count": 4}
"""As many processes as in the other tables, and as the page states; the scenario has sixteen."""
_IDLE = ("idle",)
_BACKLOG = ("baseline", "backlog")
IDLE_TABLE = LibraryTable(
    name="idle-cost",
    scenario="idle-cost",
    load="any",
    allowed=AllowedChanges(stated=WORKERS),
    columns=(
        Figure(title="claim statements per second", metric="claim_statement_calls.rate", phases=_IDLE),
        Figure(title="server CPU, %", metric="server_cpu_percent.mean", phases=_IDLE),
        Figure(title="pickup p50, ms", metric="pickup_ms.p50", phases=_IDLE),
        Figure(title="pickup p95, ms", metric="pickup_ms.p95", phases=_IDLE),
        Figure(title="connections", metric="connections.max", phases=_IDLE),
    ),
)
BACKLOG_TABLE = LibraryTable(
    name="deep-backlog",
    scenario="deep-backlog",
    load="any",
    allowed=AllowedChanges(),
    find_lack=lambda library: library.no_other_jobs,
    columns=(
        Figure(title="claim statement, ms", metric="claim_statement_ms.mean", phases=_BACKLOG),
        Figure(title="buffers per claim", metric="claim_statement_buffers.per_call", phases=_BACKLOG),
        Figure(title="pickup p95, ms", metric="pickup_ms.p95", phases=_BACKLOG),
        Figure(title="latency p95, ms", metric="latency_ms.p95", phases=_BACKLOG),
        Figure(title="oldest job at the end, s", metric="oldest_job_s.last", phases=_BACKLOG),
        Figure(title="server CPU, %", metric="server_cpu_percent.mean", phases=_BACKLOG),
    ),
)
