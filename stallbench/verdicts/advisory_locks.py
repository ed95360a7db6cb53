"""Did a session keep advisory locks that it had no more use for?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, RunTables


class AdvisoryLocks(Check):
    """A queue says how many its session holds at once; one that holds more has leaked them, and will until the server's lock table is full."""

    name = "advisory locks"
    place = 4

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding, if the queue takes advisory locks and they were counted."""
        at_once = run.record["queue"].get("advisory_locks", 0)
        most = run.metric("advisory_locks", "max", None)
        if not at_once or most is None:
            return []
        found = f"one session held up to {int(most):,} advisory locks"
        return [
            Finding(
                check=self.name,
                subject="advisory locks are given back",
                result="fail" if most > at_once else "pass",
                reason=f"{found}; the queue needs {at_once} at once",
                expected=f"at most {at_once} a session",
                found=found,
            )
        ]
