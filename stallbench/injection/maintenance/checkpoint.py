"""Checkpoints on SQLite, on a schedule: the WAL file is copied into the database and, in the stronger modes, reset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.injection.maintenance.task import Task, TaskOptions


class CheckpointOptions(TaskOptions):
    """Options of `Checkpoint`."""

    mode: Literal["passive", "full", "restart", "truncate"] = Field(
        default="truncate", description="passive does not wait; the others wait for readers; truncate also empties the file"
    )
    wait_s: Duration = Field(
        default=2.0,
        alias="wait",
        ge=0,
        le=600,
        description="how long it waits for readers; during this time no session can write",
    )


class Checkpoint(Task[CheckpointOptions]):
    """``PRAGMA wal_checkpoint``, in addition to the passive one that SQLite itself does after every 1000 pages."""

    kind = "checkpoint"
    summary = "runs PRAGMA wal_checkpoint"
    source = "SQLite's documentation of WAL, Avoiding Excessively Large WAL Files; litestream issue 724"
    engines = frozenset({"sqlite"})
    options_type = CheckpointOptions

    def iterate(self, connection: Any) -> Iterator[str]:
        """Run it, and say how far it came."""
        connection.execute(f"PRAGMA busy_timeout = {round(self.options.wait_s * 1000)}")
        busy, pages, copied = connection.execute(f"PRAGMA wal_checkpoint({self.options.mode})").fetchone()
        yield f"{_describe(busy)}: {copied} of {pages} pages of the WAL are in the database"


def _describe(busy: int) -> str:
    return "checkpoint, incomplete because of a reader or writer" if busy else "checkpoint"
