"""Defect: of the jobs that a worker claims together, only the first is acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stallbench.queues import Claim
from stallbench.queues.status_column import StatusColumn, StatusColumnOptions
from tests.defective_queues.seeded_defect import SeededDefect

_BATCH = 4


class AcknowledgesFirstOfBatch(SeededDefect, StatusColumn):
    """The other claims of the batch expire, and their jobs are re-executed after their completion."""

    caught_by = "duplicates"
    tried_under = "crash_in_work"

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Have no batch."""
        super().__init__(connection, options)
        self._left: list[Claim] = []
        self._done: list[Claim] = []

    def claim(self) -> Sequence[Claim]:
        """Return the next job of the batch; claim another batch if it is finished."""
        while not self._done and len(self._left) < _BATCH and (claims := super().claim()):
            self._left.extend(claims)
        return [self._left.pop(0)] if self._left else []

    def complete(self, claim: Claim) -> None:
        """Acknowledge the batch with its last job: meant is each of them."""
        self._done.append(claim)
        if not self._left:
            super().complete(self._done[0])
            self._done.clear()
