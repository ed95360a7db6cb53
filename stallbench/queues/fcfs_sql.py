"""First come, first served on a table: the queue that the article's author found and replaced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stallbench.queues.fcfs import FcfsOptions, FcfsStore
from stallbench.queues.queue import Claim, NewJob
from stallbench.queues.sql_store import SqlStore, now_ms


class SqlFcfs(SqlStore, FcfsStore):
    """A table in which all jobs stay, each with its state."""

    def __init__(self, connection: Any, options: FcfsOptions) -> None:
        """Serve ``connection``."""
        super().__init__(connection, Path(__file__).with_name("fcfs.sql"))

    def install(self) -> None:
        """Create the table."""
        self.session.run(self.statements[f"create_table_{self.session.engine_family}"])

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert them, in one transaction."""
        at_ms = now_ms()
        return self.session.insert(self.statements["insert"], [(job.payload, at_ms) for job in jobs])

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert them by the engine's quickest way in."""
        at_ms = now_ms()
        return self.session.load("fcfs_jobs", ("payload", "enqueued_at_ms"), [(job.payload, at_ms) for job in jobs])

    def find_first_unprocessed(self) -> Claim | None:
        """Select the first one, without a lock."""
        rows = self.session.run(self.statements["find_first_unprocessed"]).rows
        return Claim(job_id=int(rows[0][0]), attempt=None, payload=rows[0][1]) if rows else None

    def reserve(self, claim: Claim) -> None:
        """Set its state."""
        self.session.run(self.statements["reserve"], claim.job_id)

    def complete(self, claim: Claim) -> None:
        """Set its state; its row stays."""
        self.session.run(self.statements["complete"], claim.job_id)

    def release(self, claim: Claim) -> None:
        """Set its state; its place is the old one."""
        self.session.run(self.statements["release"], claim.job_id)

    def explain(self) -> str:
        """Ask for the plan of the first step."""
        return self.session.explain(self.statements["find_first_unprocessed"])


STORE = SqlFcfs
