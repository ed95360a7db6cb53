"""Did whoever made the calls hear of every deadlock that the server broke?"""

from __future__ import annotations

from stallbench.injection.record import read_injections
from stallbench.verdicts.check import Check, Finding, RunTables

_KINDS = ("1213", "40P01")
"""InnoDB's and PostgreSQL's names of a deadlock."""


class Deadlocks(Check):
    """The server rolls one transaction back for each deadlock that it breaks. A queue that keeps that to itself takes for done what was undone.

    As many as there are faults, longrunners and processes that died are not held against the queue: they have transactions, too, and
    may not be able to say what became of them.
    """

    name = "deadlocks"
    place = 4

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding, if the server's deadlocks were counted."""
        broken = run.metric("deadlocks", "count", None)
        if broken is None:
            return []
        errors = run["errors"]
        told = int(errors.loc[errors["kind"].isin(_KINDS), "count"].sum())
        record = run.record
        died = sum(process["exit_code"] not in (None, 0) for process in record["processes"])
        allowed = len(read_injections(record, "fault", "longrunner")) + died
        untold = int(broken) - told
        found = f"the server broke {int(broken):,} deadlocks; calls raised {told:,}, or were tried again, for one"
        return [
            Finding(
                check=self.name,
                subject="deadlocks are not swallowed",
                result="fail" if untold > allowed else "pass",
                reason=found if broken or told else "the server broke no deadlock",
                expected=f"at most {allowed} that nobody was told of",
                found=found,
            )
        ]
