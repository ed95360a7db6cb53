"""Was a job re-executed, and does the queue's promise allow it?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stallbench.pipeline.large_tables import field
from stallbench.records.job_ids import describe_job
from stallbench.verdicts.check import Check, Finding, RunTables, Severity

_EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class Repeated:
    """The totals of the table ``duplicates``."""

    jobs: int = 0
    """Jobs that were executed or completed more than once."""
    re_executed: int = 0
    """Those of them that were executed more than once."""
    re_executions: int = 0
    """Executions of these jobs, without the first of each."""


def count_repeated(run: RunTables) -> Repeated:
    """Add up the table ``duplicates``."""
    repeated = Repeated()
    for batch in run.batches("duplicates", ["executions"]):
        further = np.maximum(batch["executions"].to_numpy() - 1, 0)
        repeated = Repeated(
            repeated.jobs + len(further),
            repeated.re_executed + int(np.count_nonzero(further)),
            repeated.re_executions + int(further.sum()),
        )
    return repeated


class Duplicates(Check):
    """Compares repeated executions with the queue's promise. At-least-once allows one only after an attempt that failed, expired or ended in an error, or
    whose worker died; and no sooner: a claim does not expire before the time that the queue declares.

    If the scenario has an expectation on ``re_completed.count`` of the whole run with an upper bound, that expectation judges second completions. A
    requirement that nothing be repeated judges all of them.
    """

    name = "duplicates"
    position = 2
    severity = Severity.JOBS_REPEATED

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown if no claim was recorded."""
        subject = f"executions keep the promise {run.record.queue.promise}"
        is_unexplained = ~field("excused")
        if any(one.limits("re_completed.count") for one in run.record.scenario.expect):
            is_unexplained &= field("completions") < 2
        repeated = count_repeated(run)
        if not repeated.jobs and not run.count_events("claimed"):
            return [self.unknown(subject, "no claim was recorded, so nothing is known of repeated executions")]
        if "repeated" in run.record.scenario.required:
            return [self.not_applicable(subject, f"judged as required; {_describe(repeated)}")]
        unexplained = sum(batch.num_rows for batch in run.batches("duplicates", ["job_id"], is_unexplained))
        examples = run.first("duplicates", _EXAMPLES, is_unexplained).to_dict("records")
        return [
            self.finding(
                "fail" if unexplained else "pass",
                subject,
                _describe(repeated)
                + (f", {unexplained:,} of them without a reason that the promise allows" if repeated.jobs else ""),
                expected="0 without a reason that the promise allows",
                examples=tuple(f"{describe_job(row['job_id'])} ({row['reason']})" for row in examples),
            )
        ]


def _describe(repeated: Repeated) -> str:
    if not repeated.jobs:
        return "no job was executed or completed more than once"
    return f"{repeated.jobs:,} jobs were executed or completed more than once ({repeated.re_executions:,} repeated executions)"
