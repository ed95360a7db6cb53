"""Defect: a completed job's advisory lock is not released."""

from __future__ import annotations

from stallbench.queues import Claim
from stallbench.queues.que import Que
from tests.defective_queues.seeded_defect import SeededDefect


class LeaksAdvisoryLocks(SeededDefect, Que):
    """Locks one job after the other until the server has no room for more."""

    caught_by = "advisory locks"
    tried_under = "locks"

    def complete(self, claim: Claim) -> None:
        """Delete the job, and forget the lock."""
        self.execute("destroy_job", *claim.handle)
