"""The table in docs/libraries.md of what workers cost the server while there is hardly any work."""

from __future__ import annotations

from stallbench.comparison.library_columns import Figure
from stallbench.comparison.library_comparisons import LibraryTable
from stallbench.comparison.library_settings import AllowedChanges

WORKERS = {"workers.count": 4}
"""As many processes as in the other tables, and as the page states; the scenario has sixteen."""
_PHASES = ("idle",)
IDLE_TABLE = LibraryTable(
    name="idle-cost",
    scenario="idle-cost",
    load="any",
    allowed=AllowedChanges(stated=WORKERS),
    columns=(
        Figure(title="claim statements per second", metric="claim_statement_calls.rate", phases=_PHASES),
        Figure(title="server CPU, %", metric="server_cpu_percent.mean", phases=_PHASES),
        Figure(title="pickup p50, ms", metric="pickup_ms.p50", phases=_PHASES),
        Figure(title="pickup p95, ms", metric="pickup_ms.p95", phases=_PHASES),
        Figure(title="connections", metric="connections.max", phases=_PHASES),
    ),
)
