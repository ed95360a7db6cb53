"""Was every deadlock that the server broke reported to the client that was rolled back?"""

from __future__ import annotations

import math

import pandas as pd

from stallbench.base.number_text import format_plural
from stallbench.engines import ENGINES
from stallbench.engines.error_codes import codes_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.measures import MEASURES
from stallbench.records.injections import ENDED_BY_DEADLOCK
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "deadlocks are reported"
_GAP_S = 10.0
"""How long operations may continue after the last sample of the count: on a busy machine samples are late, and PostgreSQL's sessions report their
deadlocks late."""
_FEW = 20
"""With fewer reported deadlocks, a low count does not show that the server fails to count them: the count may only be late."""


class Deadlocks(Check):
    """Compares the server's count of deadlocks with the errors that clients recorded for them.

    Both cover the whole record, including the time before and after the phases. The server rolls one transaction back for each deadlock. A queue that
    ignores the error treats work that was rolled back as done. One unreported deadlock is allowed for each injection and for each process that died:
    the server may have rolled back their transactions without their being able to record it. A fault whose own statements were ended says how often
    (`ENDED_BY_DEADLOCK` in its evidence).

    The count decides nothing if it ends long before the operations do, or if it has less than half of the deadlocks that clients recorded: some
    servers (MySQL 8.0.15) do not count them all.
    """

    name = "deadlocks"
    position = 5

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown without a reliable count, info on an engine that counts no deadlocks."""
        record = run.record
        engine = ENGINES[record.scenario.database.engine]
        if not engine.counts_deadlocks:
            return [self.not_applicable(_SUBJECT, f"{engine.title} does not count deadlocks")]
        windows = run["windows"]
        sampled = windows[windows["deadlocks_count"].notna()]
        if sampled.empty:
            return [self.unknown(_SUBJECT, f"{engine.title} counts deadlocks, but there are no samples of its count")]
        missing_s = _find_last_operation_s(windows) - sampled["t_s"].max()
        if missing_s > _GAP_S:
            return [
                self.unknown(_SUBJECT, f"the count of deadlocks was not sampled in the last {missing_s:.0f} s with operations")
            ]
        broken = int(sampled["deadlocks_count"].sum())
        errors = run["errors"]
        reported = int(errors.loc[errors["kind"].isin(codes_of(ErrorKind.DEADLOCK)), "count"].sum())
        if reported >= _FEW and 2 * broken < reported:
            return [
                self.unknown(
                    _SUBJECT, f"the server counted {broken:,} deadlocks, but clients recorded {reported:,} errors for them"
                )
            ]
        died = sum(process.exit_code not in (None, 0) for process in record.processes)
        own = sum(int(fault.evidence.get(ENDED_BY_DEADLOCK, 0)) for fault in record.faults)
        allowed = len([*record.faults, *record.longrunners]) + died + own
        found = (
            f"the server broke {format_plural(broken, 'deadlock')}; clients recorded {format_plural(reported, 'error')} for them"
        )
        return [
            self.finding(
                "fail" if broken - reported > allowed else "pass",
                _SUBJECT,
                found if broken or reported else "the server broke no deadlock",
                expected=f"at most {format_plural(allowed, 'deadlock')} that no client recorded",
            )
        ]


def _find_last_operation_s(windows: pd.DataFrame) -> float:
    """Return the last second with an operation; minus infinity if there was none."""
    counted = [name for name, measure in MEASURES.items() if measure.is_counted and name in windows]
    return float(windows.loc[(windows[counted] > 0).any(axis="columns"), "t_s"].max()) if counted else -math.inf
