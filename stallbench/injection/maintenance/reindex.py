"""Rebuilds the indexes of the queue's tables on a schedule, while the queue is in use.

A new index contains only rows that its snapshot sees. Rows that are dead by then are left out, even if vacuum must not remove them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.injection.maintenance.task import Task, TaskOptions, set_statement_timeout

_INVALID = """
SELECT indexrelid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_index
WHERE NOT indisvalid AND indrelid = ANY (%s::pg_catalog.regclass[]) AND indexrelid::pg_catalog.regclass::pg_catalog.text ~ '_cc(new|old)\\d*$'
"""


class ReindexOptions(TaskOptions):
    """Options of `Reindex`."""

    remove_leftovers: bool = Field(
        default=True, description="whether the invalid indexes of cancelled attempts are removed first"
    )
    statement_timeout_s: Duration | None = Field(
        default=None, alias="statement_timeout", ge=0.001, le=3600, description="time after which the server cancels an attempt"
    )


class Reindex(Task[ReindexOptions]):
    """``REINDEX TABLE CONCURRENTLY`` of each table of the queue.

    It waits for every transaction of its database that has an older snapshot. A transaction that reads, under REPEATABLE READ or in a long statement,
    delays it until the transaction ends; an idle transaction that has only written does not.
    """

    kind = "reindex"
    summary = "rebuilds the indexes of the queue's tables (REINDEX CONCURRENTLY)"
    source = "PostgreSQL's documentation of routine reindexing; pg_cron or a cron job"
    engines = frozenset({"postgres"})
    options_type = ReindexOptions

    def iterate(self, connection: Any) -> Iterator[str]:
        """Rebuild them all, after removing what a cancelled attempt has left."""
        tables = list(self.document.tables)
        if self.options.remove_leftovers:
            for (index,) in connection.execute(_INVALID, (tables,)).fetchall():
                connection.execute(f"DROP INDEX CONCURRENTLY {index}")
                yield f"removed {index}, which a cancelled attempt had left"
        set_statement_timeout(connection, self.options.statement_timeout_s)
        for table in tables:
            connection.execute(f"REINDEX TABLE CONCURRENTLY {table}")
            yield f"reindexed {table}"
