"""Do the clocks of hosts that took part from outside agree with the bench's?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stallbench.processes.clock_offset import ClockOffset
from stallbench.verdicts.check import Check, Finding, Result, RunTables

_TOLERATED_NS = 5_000_000
"""As much as a claim may take on a slow network: what is measured across hosts has figures of that size."""


class Clocks(Check):
    """Times of one job that two hosts have written are compared in latency and order: their clocks must agree."""

    name = "clocks"
    place = 6

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding, none if nobody took part from outside; a clock that nobody could hold against another is unknown."""
        external_processes = [
            process for process in run.record["processes"] if process.get("external") and _has_written(run, process)
        ]
        if not external_processes:
            return []
        ahead_ms, unknown, wrong = [], [], []
        for process in external_processes:
            here, there = process.get("bench_clock"), process.get("clock")
            if not here or not there:
                unknown.append(process["name"])
                continue
            ahead_ns, error_ns = describe_ahead(ClockOffset.model_validate(there), ClockOffset.model_validate(here))
            ahead_ms.append(abs(ahead_ns) / 1e6)
            if abs(ahead_ns) - error_ns > _TOLERATED_NS:
                way = "ahead of" if ahead_ns > 0 else "behind"
                wrong.append(f"{process['name']} on {process['host']}: {abs(ahead_ns) / 1e6:,.1f} ms {way} the bench's")
        if wrong:
            reason = (
                f"clocks differ, and latencies and order across hosts with them: {', '.join(wrong)}; set them by one time server"
            )
        elif unknown:
            reason = f"clocks could not be held against the primary's: {', '.join(unknown)}"
        else:
            reason = (
                f"clocks of {len(external_processes)} processes from outside are within {max(ahead_ms):.1f} ms of the bench's"
            )
        result: Result = "fail" if wrong else "unknown" if unknown else "pass"
        return [Finding(check=self.name, subject="clocks agree", result=result, reason=reason, found=reason)]


def _has_written(run: RunTables, process: Mapping[str, Any]) -> bool:
    """Whether there are times of it at all: one that was killed as it came has none, and a longrunner has no log."""
    log = run.folder / "events" / f"{process['name']}.csv"
    return log.exists() and log.stat().st_size > 0


def describe_ahead(there: ClockOffset, here: ClockOffset) -> tuple[int, int]:
    """Return by how much the clock there is ahead of the one here, and how far off that may be, in ns."""
    return here.offset_ns - there.offset_ns, here.error_ns + there.error_ns
