"""Defect: the rescue of a dead worker's job marks it as done."""

from __future__ import annotations

from typing import Any

from stallbench.queues.status_column import StatusColumn, StatusColumnOptions
from tests.defective_queues.seeded_defect import SeededDefect


class LosesWithWorker(SeededDefect, StatusColumn):
    """Loses the job with its worker, also if the worker had not sent the completion."""

    caught_by = "conservation"
    tried_under = "crash_before_completion"

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Change the rescue."""
        super().__init__(connection, options)
        self.statements = self.statements | {"rescue": self.statements["rescue"].replace("'ready'", "'done'")}
