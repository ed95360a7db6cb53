"""Defect: an enqueue whose answer is late is repeated, and the queue cannot distinguish the two."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stallbench.queues import NewJob
from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect

_PATIENCE_S = 0.08


class DoubleEnqueueOnRetry(SeededDefect, SkipLocked):
    """Inserts the jobs twice when the network is slow."""

    caught_by = "conservation"

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Take an answer that is late for none."""
        asked_s = time.monotonic()
        ids = super().enqueue(jobs)
        if time.monotonic() - asked_s > _PATIENCE_S:
            return super().enqueue(jobs)
        return ids
