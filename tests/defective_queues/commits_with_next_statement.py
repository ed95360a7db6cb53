"""Defect: a completion is confirmed before its commit, which is sent with the next statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stallbench.queues import Claim
from stallbench.queues.skip_locked import SkipLocked, SkipLockedOptions
from tests.defective_queues.seeded_defect import SeededDefect


class CommitsWithNextStatement(SeededDefect, SkipLocked):
    """Saves a round trip, and loses the last completion of a worker that dies within microseconds after it."""

    caught_by = "duplicates"
    tried_under = "crash_after_completion"

    def __init__(self, connection: Any, options: SkipLockedOptions) -> None:
        """Have nothing to commit."""
        super().__init__(connection, options)
        self._is_open = False

    def claim(self) -> Sequence[Claim]:
        """Commit the completion before, then claim."""
        self._commit()
        return super().claim()

    def complete(self, claim: Claim) -> None:
        """Delete the job, and leave the commit to the next statement."""
        self.execute("complete", claim.handle)
        self._is_open = True

    def deregister(self) -> None:
        """Commit the last completion."""
        self._commit()

    def _commit(self) -> None:
        if self._is_open:
            self.execute("commit")
            self._is_open = False
