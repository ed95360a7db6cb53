"""Drops partitions whose rows are no longer needed, instead of deleting the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from stallbench.injection.maintenance.task import Task, TaskOptions

_PARTITIONS = """
SELECT inhrelid::pg_catalog.regclass::pg_catalog.text AS name FROM pg_catalog.pg_inherits WHERE inhparent = %s::pg_catalog.regclass
ORDER BY pg_inherits.inhrelid
"""


class DropPartitionsOptions(TaskOptions):
    """Options of `DropPartitions`."""

    where: str = Field(description="SQL condition that all rows of a partition must meet, like \"status = 'done'\"")


class DropPartitions(Task[DropPartitionsOptions]):
    """``DROP TABLE`` of each partition that a later one has replaced, as soon as all of its rows meet a condition.

    For a moment it holds an ACCESS EXCLUSIVE lock on the partition and its parent, for which it waits for the queue's transactions.
    """

    kind = "drop_partitions"
    summary = "drops partitions of the queue's tables all of whose rows match a condition"
    source = "PostgreSQL's documentation of table partitioning; PgQ, Oban Pro and Absurd keep completed jobs in partitions"
    engines = frozenset({"postgres"})
    options_type = DropPartitionsOptions

    def iterate(self, connection: Any) -> Iterator[str]:
        """Drop every such partition except the newest one that contains rows. Partitions are sorted by their creation."""
        for table in self.document.tables:
            partitions = [name for (name,) in connection.execute(_PARTITIONS, (table,)).fetchall()]
            used = [name for name in partitions if connection.execute(f"SELECT FROM {name} LIMIT 1").rowcount]
            for name in used[:-1]:
                with connection.transaction():
                    # Every other session locks the parent first, too; otherwise claims and drops deadlock. When the locks are granted,
                    # no job is being inserted or changed, so that the check sees all.
                    connection.execute(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")
                    connection.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
                    if connection.execute(f"SELECT FROM {name} WHERE ({self.options.where}) IS NOT TRUE LIMIT 1").rowcount:
                        continue
                    connection.execute(f"DROP TABLE {name}")
                yield f"dropped {name}"
