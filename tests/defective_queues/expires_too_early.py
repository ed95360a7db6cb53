"""Defect: a reservation is taken for expired in the second in which it was made."""

from __future__ import annotations

from stallbench.queues.laravel import Laravel
from tests.defective_queues.seeded_defect import SeededDefect


class ExpiresTooEarly(SeededDefect, Laravel):
    """Gives the job to another worker while the first is at it."""

    caught_by = "duplicates"

    def _when(self) -> tuple[str, int, int]:
        """Forget to take ``retry_after`` off."""
        at_s = self.now_s()
        return self.queue_name, at_s, at_s
