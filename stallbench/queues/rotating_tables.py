"""Rotating tables, as in PgQ: new jobs go to one of three tables in turn, and TRUNCATE empties a table whose jobs are completed.

A job leaves a dead row, but only until its table is emptied: TRUNCATE does not depend on the horizon. A transaction that has read the
queue's own tables holds a lock that prevents TRUNCATE; until it ends, jobs continue and dead rows accumulate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from psycopg import errors
from pydantic import Field

from stallbench.queues.postgres_queue import PostgresQueue, read_backlog, read_int, read_row
from stallbench.queues.queue import Backlog, Claim, NewJob, Promise, QueueOptions
from stallbench.queues.statements import fill_placeholders, read_statements

_STATEMENTS = read_statements(Path(__file__).with_suffix(".sql"))
_SLOTS = 3


class RotatingTablesOptions(QueueOptions):
    """Options of the rotation."""

    rotate_after_s: int = Field(
        default=2, ge=1, alias="rotate_after", description="seconds after which new jobs go to the next table"
    )


class RotatingTables(PostgresQueue[RotatingTablesOptions]):
    """``FOR UPDATE SKIP LOCKED`` within the oldest table that has a job; workers rotate and empty the tables as they claim."""

    kind = "rotating_tables"
    summary = "FOR UPDATE SKIP LOCKED in three tables in turn, each emptied by TRUNCATE when its jobs are done"
    source = "PgQ's event tables pgq.event_<queue>_0 to _2 and their rotation (pgq.github.io, Internal Tables); its batches and ticks are not here"
    options_type = RotatingTablesOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    tables = tuple(f"rotating_jobs_{slot}" for slot in range(_SLOTS))
    indexes = tuple(f"rotating_jobs_{slot}_pkey" for slot in range(_SLOTS))
    claim_pattern = r"FROM rotating_jobs_\d .*SKIP LOCKED"

    def __init__(self, connection: Any, options: RotatingTablesOptions) -> None:
        """Serve ``connection``; the first claim checks whether it is time to rotate."""
        super().__init__(connection, options)
        self._rotate_at_s = 0.0
        self.statements = dict(_STATEMENTS)
        for slot in range(_SLOTS):
            placeholders = {"{slot}": str(slot), "{next}": str((slot + 1) % _SLOTS)}
            self.statements |= {
                f"{name}_{slot}": fill_placeholders(statement, placeholders) for name, statement in _STATEMENTS.items()
            }

    def install(self) -> None:
        """Create the tables, and set the current one."""
        self.execute("install_jobs")
        for slot in range(_SLOTS):
            self.execute(f"install_slot_{slot}")
        self.execute("install_turn")
        self.execute("install_first_turn")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs; several share one transaction and one round trip."""
        return self.insert("enqueue", [(job.payload.encode(),) for job in jobs])

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs into the current table; rotation is locked meanwhile."""
        ids = self.take_ids(len(jobs))
        with self.connection.transaction():
            slot = read_int(self.execute("hold_turn"), 0)
            self.copy("load", ((slot, job_id, job.payload) for job_id, job in zip(ids, jobs, strict=True)))
        return ids

    def claim(self) -> Sequence[Claim]:
        """Begin a transaction and lock one job of the oldest table that has one; rotate past and empty tables without jobs."""
        head, tail = (int(value) for value in read_row(self.execute("turn"), 0, 2))
        if time.monotonic() >= self._rotate_at_s:
            self.execute(f"rotate_{tail}", b"%d" % (self.options.rotate_after_s * 1000))
            self._rotate_at_s = time.monotonic() + self.options.rotate_after_s / 2
        slot = head
        while True:
            if claims := self._claim_in(slot):
                return claims
            if slot == tail:
                return []
            if slot == head:
                self._empty(slot)
            slot = (slot + 1) % _SLOTS

    def _claim_in(self, slot: int) -> Sequence[Claim]:
        self.execute("begin")
        locked = self.execute(f"claim_{slot}")
        if locked.ntuples == 0:
            self.execute("commit")
            return []
        job_id, attempts, payload = read_row(locked, 0, 3)
        return [Claim(job_id=int(job_id), attempt=int(attempts) + 1, payload=payload.decode(), handle=(slot, job_id))]

    def _empty(self, slot: int) -> None:
        """Truncate a table without jobs and advance, unless another session is using it; then the next claim retries."""
        self.execute("begin")
        try:
            self.execute(f"lock_slot_{slot}")
        except errors.LockNotAvailable:
            self.execute("rollback")
            return
        if self.execute(f"pass_on_{slot}").command_tuples:
            self.execute(f"empty_slot_{slot}")
        self.execute("commit")

    def complete(self, claim: Claim) -> None:
        """Delete the job and commit."""
        slot, job_id = claim.handle
        self.execute(f"complete_{slot}", job_id)
        self.execute("commit")

    def fail(self, claim: Claim, error: str) -> None:
        """Count the attempt, delay the job, and commit."""
        slot, job_id = claim.handle
        self.execute(f"fail_{slot}", error.encode(), job_id)
        self.execute("commit")

    def backlog(self) -> Backlog:
        """Count what is due and not locked by an open transaction."""
        return read_backlog(self.execute("backlog"))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the tables and their row locks."""
        for job_id, claimed in self.stream("job_ids"):
            yield int(job_id), bool(claimed)
