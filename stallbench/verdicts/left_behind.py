"""Was every job that a dead worker had offered to another one?"""

from __future__ import annotations

from stallbench.pipeline.overdue import HELD_FOR_THE_DEAD, LEFT_BEHIND, PATIENCE_S
from stallbench.verdicts.check import Check, Finding, RunTables
from stallbench.verdicts.order import describe_overdue


class LeftBehind(Check):
    """A queue that promises *at least once* lets go of a claim when its worker's connection has ended or its time is over.

    That jobs which came later were offered first counts only against a queue that keeps the order; that the job is still taken for claimed,
    against any.
    """

    name = "left behind"
    place = 3

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        queue = run.record["queue"]
        overdue = run["overdue"]
        kinds = (HELD_FOR_THE_DEAD, LEFT_BEHIND) if queue["ordered"] else (HELD_FOR_THE_DEAD,)
        wrong = overdue[overdue["kind"].isin(kinds)]
        words = {
            HELD_FOR_THE_DEAD: "were still claimed by a worker that had died",
            LEFT_BEHIND: "of a worker that had died were not offered again, though younger ones were claimed",
        }
        told = [describe_overdue(row, words[row["kind"]]) for row in wrong.to_dict("records")]
        found = "; ".join(told) or "no job of a worker that had died was left behind"
        return [
            Finding(
                check=self.name,
                subject="jobs of dead workers are offered again",
                result="fail" if told else "pass",
                reason=found,
                expected=f"within {PATIENCE_S:g} s of the worker's end or the claim's expiry, faults aside",
                found=found,
                examples=tuple(str(job) for jobs in wrong["examples"] for job in jobs),
            )
        ]
