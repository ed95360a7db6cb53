"""Defect: a reservation that has expired is never offered again."""

from __future__ import annotations

from typing import Any

from stallbench.queues.laravel import Laravel, LaravelPessimisticOptions
from tests.defective_queues.seeded_defect import SeededDefect


class NeverExpires(SeededDefect, Laravel):
    """Says that reservations expire, and looks only for jobs that were never reserved."""

    caught_by = "left behind"
    tried_under = "deaths"

    def __init__(self, connection: Any, options: LaravelPessimisticOptions) -> None:
        """Leave the expired ones out of the claim."""
        super().__init__(connection, options)
        self.statements["next_jobs"] = self.statements["next_jobs"].replace("(reserved_at <= ?)", "(reserved_at <= ? AND FALSE)")
