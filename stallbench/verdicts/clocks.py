"""Do the clocks of the hosts of external processes agree with the bench's?"""

from __future__ import annotations

from stallbench.processes.record import ClockOffset, ProcessRecord
from stallbench.records.sealing import sealed_file
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "clocks agree"
_TOLERATED_NS = 5_000_000
"""A claim on a slow network takes this long: figures that compare times of two hosts have this order of magnitude."""


class Clocks(Check):
    """Latency and order compare times that different hosts recorded for one job, so their clocks must agree."""

    name = "clocks"
    position = 8

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown if a clock could not be compared, info if no external process recorded times."""
        external = [process for process in run.record.processes if process.external and _has_recorded(run, process)]
        if not external:
            return [self.not_applicable(_SUBJECT, "no external process recorded times")]
        ahead_ms, unknown, wrong = [], [], []
        for process in external:
            here, there = process.bench_clock, process.clock
            if not here or not there:
                unknown.append(process.name)
                continue
            ahead_ns, error_ns = measure_ahead(there, here)
            ahead_ms.append(abs(ahead_ns) / 1e6)
            if abs(ahead_ns) - error_ns > _TOLERATED_NS:
                direction = "ahead of" if ahead_ns > 0 else "behind"
                wrong.append(f"{process.name} on {process.host}: {abs(ahead_ns) / 1e6:,.1f} ms {direction} the bench's")
        if wrong:
            reason = f"clocks differ, so latency and order across hosts are wrong: {', '.join(wrong)}; synchronise the hosts with one NTP server"
            return [self.finding("fail", _SUBJECT, reason)]
        if unknown:
            return [self.unknown(_SUBJECT, f"clocks could not be compared with the primary's: {', '.join(unknown)}")]
        reason = f"the clocks of {len(external)} external processes are within {max(ahead_ms):.1f} ms of the bench's"
        return [self.finding("pass", _SUBJECT, reason)]


def _has_recorded(run: RunTables, process: ProcessRecord) -> bool:
    """Whether the process recorded times. Not if it was killed while it joined, or if it is a longrunner, which has no event log."""
    log = run.folder / "events" / f"{process.name}.csv"
    return (log.exists() and log.stat().st_size > 0) or (run.folder / sealed_file(f"events/{process.name}.csv")).exists()


def measure_ahead(there: ClockOffset, here: ClockOffset) -> tuple[int, int]:
    """Return by how much the process's clock is ahead of the bench's, and the greatest possible error of this figure; both in ns."""
    return here.offset_ns - there.offset_ns, here.error_ns + there.error_ns
