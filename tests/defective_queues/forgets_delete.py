"""Defect: a completed job is not deleted, and comes back when its reservation has expired."""

from __future__ import annotations

from stallbench.queues import Claim
from stallbench.queues.laravel import Laravel
from tests.defective_queues.seeded_defect import SeededDefect


class ForgetsDelete(SeededDefect, Laravel):
    """Says that the job is completed, and does nothing."""

    caught_by = "conservation"

    def complete(self, claim: Claim) -> None:
        """Forget it."""
