"""Updates the planner's statistics of the queue's tables on a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.injection.maintenance.task import Task, TaskOptions


class Analyze(Task[TaskOptions]):
    """``ANALYZE`` of each table of the queue. Sessions then plan their prepared statements again."""

    kind = "analyze"
    summary = "updates the planner's statistics of the queue's tables (ANALYZE)"
    source = "PostgreSQL's documentation of updating planner statistics; pg_cron or a cron job"
    engines = frozenset({"postgres"})

    def iterate(self, connection: Any) -> Iterator[str]:
        """Analyze them all."""
        for table in self.document.tables:
            connection.execute(f"ANALYZE {table}")
            yield f"analyzed {table}"
