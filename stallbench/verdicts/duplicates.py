"""Was a job re-executed, and does the queue's promise allow it?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, RunTables, Severity

_EXAMPLES = 20


class Duplicates(Check):
    """Compares re-executions with the queue's promise: at-least-once allows one only after an attempt that failed, expired, ended in an
    error, or whose worker died.

    If the scenario has an expectation on ``re_completed.count`` of the whole run, that expectation judges second completions.
    """

    name = "duplicates"
    position = 2
    severity = Severity.JOBS_REPEATED

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        repeated = run["duplicates"]
        is_unexplained = ~repeated["excused"].astype(bool)
        if any(one.metric == "re_completed.count" and not one.phase for one in run.record.scenario.expect):
            is_unexplained &= repeated["completions"] < 2
        unexplained = repeated[is_unexplained]
        re_executions = int((repeated["executions"] - 1).clip(lower=0).sum())
        return [
            self.finding(
                "fail" if len(unexplained) else "pass",
                f"executions keep the promise {run.record.queue.promise}",
                f"{len(repeated):,} jobs were executed more than once ({re_executions:,} re-executions), "
                f"{len(unexplained):,} of them without a reason that the promise allows"
                if len(repeated)
                else "no job was executed more than once",
                expected="0 without a reason",
                examples=tuple(f"{row['job_id']} ({row['processes']})" for row in unexplained.head(_EXAMPLES).to_dict("records")),
            )
        ]
