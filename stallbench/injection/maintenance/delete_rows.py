"""Deletes rows of the queue's table, as an application's cleanup of completed jobs does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.injection.maintenance.task import Task, TaskOptions, set_statement_timeout


class DeleteRowsOptions(TaskOptions):
    """Options of `DeleteRows`."""

    where: str = Field(description="SQL condition of the rows that are deleted, like \"status = 'done'\"")
    batch: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="rows that one statement deletes at most; none for all of them in one statement",
    )
    pause_s: Duration = Field(default=0.0, alias="pause", ge=0, le=60, description="pause between two batches")
    statement_timeout_s: Duration | None = Field(
        default=None, alias="statement_timeout", ge=0.001, le=3600, description="time after which the server cancels a statement"
    )


class DeleteRows(Task[DeleteRowsOptions]):
    """``DELETE``: all rows in one statement, or batch by batch, each committed by itself."""

    kind = "delete_rows"
    summary = "deletes rows of the first of the queue's tables that match a condition"
    source = "what applications and libraries do with completed jobs: good_job's cleanup_preserved_jobs, Oban's Pruner"
    engines = frozenset({"postgres"})
    options_type = DeleteRowsOptions

    def iterate(self, connection: Any) -> Iterator[str]:
        """Delete every row that matches, until there is none, or until asked to end between two batches."""
        table, where, batch = self.document.tables[0], self.options.where, self.options.batch
        set_statement_timeout(connection, self.options.statement_timeout_s)
        if batch is None:
            yield f"deleted {connection.execute(f'DELETE FROM {table} WHERE {where}').rowcount} rows of {table}"
            return
        some = f"SELECT ctid FROM {table} WHERE {where} LIMIT {batch}"
        deleted = batches = 0
        while count := connection.execute(f"DELETE FROM {table} WHERE ctid = ANY (ARRAY ({some}))").rowcount:
            deleted, batches = deleted + count, batches + 1
            if count < batch or self.wait(self.options.pause_s):
                break
        yield f"deleted {deleted} rows of {table} in {batches} batches"
