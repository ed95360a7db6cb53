"""Was every job of a dead worker offered to another one?"""

from __future__ import annotations

from stallbench.pipeline.overdue import HELD_FOR_THE_DEAD, LEFT_BEHIND, PATIENCE_S
from stallbench.records.job_ids import describe_job
from stallbench.verdicts.check import Check, Finding, RunTables, Severity
from stallbench.verdicts.order import describe_overdue

_WORDS = {
    HELD_FOR_THE_DEAD: "were still claimed by a worker that had died",
    LEFT_BEHIND: "of a worker that had died were not offered again, although younger jobs were claimed",
}


class LeftBehind(Check):
    """A queue that promises at-least-once releases a claim when its worker's connection ends or the claim expires.

    A job that is still claimed fails any queue. A job that is available while younger jobs are claimed fails only a queue that promises
    order.
    """

    name = "left behind"
    position = 3
    severity = Severity.JOBS_LEFT_BEHIND

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        overdue = run["overdue"]
        kinds = (HELD_FOR_THE_DEAD, LEFT_BEHIND) if run.record.queue.ordered else (HELD_FOR_THE_DEAD,)
        wrong = overdue[overdue["kind"].isin(kinds)]
        described = [describe_overdue(row, _WORDS[row["kind"]]) for row in wrong.to_dict("records")]
        return [
            self.finding(
                "fail" if described else "pass",
                "jobs of dead workers are offered again",
                "; ".join(described) or "no job of a dead worker was left behind",
                expected=f"within {PATIENCE_S:g} s after the worker's end or the claim's expiry; time during faults does not count",
                examples=tuple(describe_job(job) for jobs in wrong["examples"] for job in jobs),
            )
        ]
