"""Defect: a claim is a mark in the row, and the mark stays when the worker dies."""

from __future__ import annotations

from collections.abc import Sequence

from stallbench.queues import Claim
from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect

_MARKED = "run_at = 'infinity'"


class LosesJobOfDeadWorker(SeededDefect, SkipLocked):
    """Marks the job and commits; the mark outlives its worker for ever."""

    caught_by = "left behind"
    tried_under = "deaths"
    statements = SkipLocked.statements | {
        "mark": f"UPDATE skip_locked_jobs SET {_MARKED} WHERE job_id = $1",
        "job_ids": f"SELECT job_id, {_MARKED} FROM skip_locked_jobs",
    }

    def claim(self) -> Sequence[Claim]:
        """Mark the job instead of keeping it locked."""
        claims = super().claim()
        for claim in claims:
            self.execute("mark", claim.handle)
            self.execute("commit")
        return claims

    def complete(self, claim: Claim) -> None:
        """Delete the job; no transaction is open."""
        self.execute("complete", claim.handle)
