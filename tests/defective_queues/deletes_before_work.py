"""Defect: the job is deleted when it is claimed, so that it is lost with a worker that dies at it."""

from __future__ import annotations

from collections.abc import Sequence

from stallbench.queues import Claim
from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect


class DeletesBeforeWork(SeededDefect, SkipLocked):
    """Promises at least once, and does at most once."""

    caught_by = "conservation"
    tried_under = "deaths"

    def claim(self) -> Sequence[Claim]:
        """Take the job out of the table at once."""
        claims = super().claim()
        for claim in claims:
            super().complete(claim)
        return claims

    def complete(self, claim: Claim) -> None:
        """Leave nothing to be done."""
