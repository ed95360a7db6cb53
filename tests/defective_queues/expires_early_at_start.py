"""Defect: a worker process that starts takes every claim for one that a crash has left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from stallbench.queues import Claim
from stallbench.queues.status_column import StatusColumn, StatusColumnOptions
from tests.defective_queues.seeded_defect import SeededDefect


class ExpiresEarlyAtStart(SeededDefect, StatusColumn):
    """Cleans up before its first claim, and takes the jobs of workers that are at them."""

    caught_by = "duplicates"
    tried_under = "restarts"
    has_cleaned_up: ClassVar[bool] = False

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Add the clean-up."""
        super().__init__(connection, options)
        self.statements = self.statements | {
            "clean_up": "UPDATE status_column_jobs SET status = 'ready' WHERE status = 'claimed'"
        }

    def claim(self) -> Sequence[Claim]:
        """Clean up once in each process, then claim."""
        if not ExpiresEarlyAtStart.has_cleaned_up:
            ExpiresEarlyAtStart.has_cleaned_up = True
            self.execute("clean_up")
        return super().claim()
