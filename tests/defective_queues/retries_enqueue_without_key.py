"""Defect: an enqueue whose answer does not come in time is sent again, without a key by which the queue knows it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stallbench.queues import NewJob
from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect

_TIMEOUT_S = 1.0


class RetriesEnqueueWithoutKey(SeededDefect, SkipLocked):
    """Inserts the jobs twice if its process stood still between the insert and the answer."""

    caught_by = "conservation"
    tried_under = "pause_in_enqueue"

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Take a late answer for an error."""
        asked_s = time.monotonic()
        ids = super().enqueue(jobs)
        if time.monotonic() - asked_s > _TIMEOUT_S:
            return super().enqueue(jobs)
        return ids
