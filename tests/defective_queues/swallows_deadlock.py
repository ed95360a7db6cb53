"""Defect: a deadlock in a completion is taken for its success."""

from __future__ import annotations

from stallbench.queues import Claim
from stallbench.queues.laravel import Laravel
from tests.defective_queues.seeded_defect import SeededDefect


class SwallowsDeadlock(SeededDefect, Laravel):
    """Leaves the job, whose deletion was rolled back, to be re-executed."""

    caught_by = "deadlocks"
    tried_under = "deadlocks"

    def complete(self, claim: Claim) -> None:
        """Delete the job, or say that it was."""
        try:
            super().complete(claim)
        except Exception as error:
            if not self.session.is_conflict(error):
                raise
            self.session.rollback()
