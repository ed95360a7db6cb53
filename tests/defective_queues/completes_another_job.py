"""Defect: a completion deletes another job than the one that was worked."""

from __future__ import annotations

from stallbench.queues import Claim
from stallbench.queues.laravel import Laravel
from tests.defective_queues.seeded_defect import SeededDefect


class CompletesAnotherJob(SeededDefect, Laravel):
    """Deletes the newest job, each twentieth time."""

    caught_by = "conservation"

    def complete(self, claim: Claim) -> None:
        """Mistake one job for another."""
        if claim.job_id % 20 == 0:
            self.session.run("DELETE FROM jobs WHERE id = (SELECT max(id) FROM jobs)")
        else:
            super().complete(claim)
