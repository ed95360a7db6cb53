"""Defect: a job that has killed two workers is given up without a trace, although no limit of attempts was asked for."""

from __future__ import annotations

from typing import Any

from stallbench.queues.status_column import StatusColumn, StatusColumnOptions
from tests.defective_queues.seeded_defect import SeededDefect


class VanishesAtSecondDeath(SeededDefect, StatusColumn):
    """Rescues a job once."""

    caught_by = "conservation"
    tried_under = "crash_at_every_job"

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Change the rescue."""
        super().__init__(connection, options)
        once = "CASE WHEN attempts < 2 THEN 'ready' ELSE 'done' END"
        self.statements = self.statements | {"rescue": self.statements["rescue"].replace("'ready'", once)}
