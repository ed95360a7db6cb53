"""How far did claims deviate from first come, first served, and did a queue that promises order pass jobs over?"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from stallbench.base.number_text import format_plural
from stallbench.pipeline.overdue import PASSED_OVER
from stallbench.pipeline.time_axis import PATIENCE_S
from stallbench.records.injections import LOCKED_JOBS, PAUSED
from stallbench.records.job_ids import describe_job
from stallbench.run.record import RunRecord
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "jobs are claimed in the order of enqueueing"
_HELD = ("concurrency", "batch_size")
"""The settings of a library that decide how many jobs a worker process holds."""


def describe_overdue(row: Mapping[Hashable, Any], words: str) -> str:
    """Describe a row of the table ``overdue``."""
    return f"{int(row['jobs']):,} jobs {words} (for up to {row['longest_s']:.1f} s)"


class Order(Check):
    """Reports the maximum and the 99th percentile of ``Diff_i``; a scenario bounds them by an expectation.

    A queue that keeps the order fails if it passed jobs over: jobs that waited although younger ones had been claimed for `PATIENCE_S`.
    Allowed are the jobs that a fault locked at a time, one such job for each claim that ended in an error, and one for each worker: it may have
    claimed it and died, or been paused, before it recorded the claim. A worker of a library that died or was paused may have held more; as many are
    allowed for it, each time. If nothing bounds how many a worker holds, and one died or was paused, more of them decide nothing.
    """

    name = "order"
    position = 4

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown without claims, info for a queue that does not promise the order."""
        unordered = "the queue does not promise the order"
        farthest, p99 = run.metric("order_diff", "max", None), run.metric("order_diff", "p99", None)
        if farthest is None or p99 is None:
            nothing = "no claim was recorded, so nothing is known of the order"
            if run.record.queue.ordered:
                return [self.unknown(_SUBJECT, nothing)]
            return [self.not_applicable(_SUBJECT, f"{unordered}; {nothing}")]
        overdue = run["overdue"]
        passed_over = overdue[overdue["kind"] == PASSED_OVER]
        distances = f"jobs were claimed at most {format_plural(farthest, 'position')} from their place in the order, 99 % within {p99:,.0f}"
        found = "; ".join(
            [distances, *(describe_overdue(row, "were passed over by younger ones") for row in passed_over.to_dict("records"))]
        )
        if not run.record.queue.ordered:
            return [self.not_applicable(_SUBJECT, f"{unordered}; {found}")]
        allowed = _count_excused(run)
        wrong = int(passed_over["jobs"].sum()) > allowed
        if wrong and _holds_any_number(run.record) and _count_stopped(run.record):
            unbounded = "a worker that died or was paused may have held any of them, because nothing limits how many jobs it executes at once"
            return [self.unknown(_SUBJECT, f"{found}; {unbounded}")]
        return [
            self.finding(
                "fail" if wrong else "pass",
                _SUBJECT,
                found,
                expected=f"at most {format_plural(allowed, 'job')} passed over for {PATIENCE_S:g} s or longer: as many as workers may have held, "
                "or a fault have locked",
                examples=tuple(describe_job(job) for jobs in passed_over["examples"] for job in jobs) if wrong else (),
            )
        ]


def _count_excused(run: RunTables) -> int:
    """Count how many claims may have been made without a record, and how many jobs a fault kept from being claimed."""
    errors = run["errors"]
    failed = errors[(errors["event"] == "error") & (errors["operation"] == "claim")]
    held = len(run.record.processes_of("worker")) + _count_stopped(run.record) * (count_held(run.record) - 1)
    locked = sum(int(fault.evidence.get(LOCKED_JOBS, 0)) for fault in run.record.faults)
    return held + locked + int(failed["count"].sum())


def _count_stopped(record: RunRecord) -> int:
    """Count the workers that died, and how often a fault paused one."""
    workers = {process.name for process in record.processes_of("worker")}
    paused = [name for fault in record.faults for name in fault.evidence.get(PAUSED, ()) if name in workers]
    return len(record.dead_workers) + len(paused)


def count_held(record: RunRecord) -> int:
    """Return how many jobs a worker process may hold at once."""
    settings = record.queue.library.settings if record.queue.library else {}
    return max((int(value) for name in _HELD if not isinstance(value := settings.get(name, 1), str)), default=1)


def _holds_any_number(record: RunRecord) -> bool:
    return record.queue.library is not None and any(isinstance(record.queue.library.settings.get(name), str) for name in _HELD)
