"""Did a session keep advisory locks that it no longer needed?"""

from __future__ import annotations

from stallbench.base.number_text import format_plural
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "advisory locks are released"


class AdvisoryLocks(Check):
    """Fails if a session held more advisory locks than the queue declares that it needs: such a leak fills the server's lock table."""

    name = "advisory locks"
    position = 6

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown without samples, info for a queue that takes no advisory locks."""
        needed = run.record.queue.advisory_locks
        if not needed:
            return [self.not_applicable(_SUBJECT, "the queue takes no advisory locks")]
        most = run.metric("advisory_locks", "max", None)
        if most is None:
            return [self.unknown(_SUBJECT, "the queue takes advisory locks, but there are no samples of them")]
        found = f"one session held up to {format_plural(most, 'advisory lock')}"
        return [
            self.finding(
                "fail" if most > needed else "pass",
                _SUBJECT,
                f"{found}; the queue needs {needed} at once",
                expected=f"at most {needed} per session",
                found=found,
            )
        ]
