"""Was a job executed again, and was the queue allowed to?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, RunTables

_EXAMPLES = 20


class Duplicates(Check):
    """Holds further executions against the queue's promise: at-least-once may repeat only what failed, expired,
    raised or died.

    Second completions are left to an expectation on ``duplicates.count`` of the whole run, if the scenario has one.
    """

    name = "duplicates"
    place = 2

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        again = run["duplicates"]
        promise = run.record["queue"]["promise"]
        is_wrong = ~again["excused"].astype(bool)
        if any(one["metric"] == "duplicates.count" and not one["phase"] for one in run.record["scenario"]["expect"]):
            is_wrong &= again["completions"] < 2  # those others are what that expectation counts
        wrong = again[is_wrong]
        executions = int((again["executions"] - 1).clip(lower=0).sum())
        found = (
            f"{len(again):,} jobs were executed more than once ({executions:,} further executions), "
            f"{len(wrong):,} of them without a reason"
            if len(again)
            else "no job was executed more than once"
        )
        return [
            Finding(
                check=self.name,
                subject=f"executions keep the promise {promise}",
                result="fail" if len(wrong) else "pass",
                reason=found,
                expected="0 without a reason",
                found=found,
                examples=tuple(f"{row['job_id']} ({row['processes']})" for row in wrong.head(_EXAMPLES).to_dict("records")),
            )
        ]
