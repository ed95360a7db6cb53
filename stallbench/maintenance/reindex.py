"""Builds the indexes of the queue's tables anew on a schedule, while the queue goes on.

A new index has only the rows that its own snapshot sees: what is dead by then is left out, also where vacuum may not remove it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.maintenance.task import Task, TaskOptions

_INVALID = """
SELECT indexrelid::regclass::text FROM pg_index
WHERE NOT indisvalid AND indrelid = ANY (%s::regclass[]) AND indexrelid::regclass::text ~ '_cc(new|old)\\d*$'
"""


class Reindex(Task[TaskOptions]):
    """``REINDEX TABLE CONCURRENTLY`` of each table of the queue.

    It waits for every transaction of its database that has an older snapshot: one that reads, under REPEATABLE READ or in a long statement,
    holds it up until it ends, and only one that has written and idles does not.
    """

    kind = "reindex"
    summary = "builds the indexes of the queue's tables anew (REINDEX CONCURRENTLY)"
    source = "PostgreSQL's documentation of routine reindexing; pg_cron or a job of one's own"
    engines = frozenset({"postgres"})

    def iterate(self, connection: Any) -> Iterator[str]:
        """Rebuild them all, after removing what an attempt that was broken off has left."""
        tables = list(self.document.tables)
        for (index,) in connection.execute(_INVALID, (tables,)).fetchall():
            connection.execute(f"DROP INDEX CONCURRENTLY {index}")
            yield f"removed {index}, which was not finished"
        for table in tables:
            connection.execute(f"REINDEX TABLE CONCURRENTLY {table}")
            yield f"reindexed {table}"
