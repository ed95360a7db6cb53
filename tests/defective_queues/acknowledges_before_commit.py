"""Defect: a completion is confirmed before it is committed; ten of them share a transaction."""

from __future__ import annotations

from typing import Any

from stallbench.queues import Claim
from stallbench.queues.skip_locked import SkipLocked, SkipLockedOptions
from tests.defective_queues.seeded_defect import SeededDefect

_TOGETHER = 10


class AcknowledgesBeforeCommit(SeededDefect, SkipLocked):
    """What a worker had completed is undone when it dies, and re-executed."""

    caught_by = "duplicates"

    def __init__(self, connection: Any, options: SkipLockedOptions) -> None:
        """Begin to count."""
        super().__init__(connection, options)
        self._completed = 0

    def complete(self, claim: Claim) -> None:
        """Delete the job, and commit each tenth time."""
        self.execute("complete", claim.handle)
        self._completed += 1
        if self._completed % _TOGETHER == 0:
            self.execute("commit")
