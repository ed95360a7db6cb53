"""Que 0.x, the queue of the article of 2015: a recursive walk over the primary key that tries an advisory lock on each job.

Deleted jobs stay in the index until vacuum may remove them, and every walk starts at the oldest of them. So one idle transaction is enough to
saturate this queue.

Two of the mitigations that 'Postgres job queues and failure by MVCC' (2015) proposes are options: ``claim_after_last`` is its *predicate
specificity* (a claim need not walk over what this worker has seen), ``batch`` its *lock multiple jobs* (one walk for many of them).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from stallbench.queues.postgres_queue import PostgresQueue, read_backlog, read_row
from stallbench.queues.queue import (
    Backlog,
    Claim,
    LostRaceError,
    NewJob,
    OptionRole,
    Promise,
    QueueOptions,
)
from stallbench.queues.statements import read_statements

_JOB_CLASS = b"Stallbench"


class QueOptions(QueueOptions):
    """Options of Que."""

    recheck: bool = Field(
        default=True,
        description="re-check the job after locking it, as Que does; without the re-check a job is re-executed once the walk's snapshot is stale",
    )
    queue: str = Field(default="", description="name of the queue within the table")
    priority: int = Field(
        default=100,
        ge=-32768,
        le=32767,
        description="priority of the jobs; lower is first",
    )
    claim_after_last: bool = Field(
        default=False, description="whether the walk starts after the last job that this worker has seen"
    )
    start_over_s: int = Field(
        default=5,
        ge=1,
        alias="start_over",
        description="with claim_after_last: seconds after which a walk starts at the first job again, so that retried jobs are found",
    )
    batch: Annotated[int, OptionRole.BATCH] = Field(
        default=1, ge=1, le=1000, description="jobs to lock in one walk; the worker then takes them one by one"
    )


class Que(PostgresQueue[QueOptions]):
    """Que 0.x. The session holds the claim: when the worker's connection ends, its jobs are free again.

    The same is true for all jobs of its batch. The jobs that it has not started were not executed, but no other worker gets them until the
    connection ends.
    """

    kind = "que"
    statements = read_statements(Path(__file__).with_suffix(".sql"))
    summary = "recursive walk over the primary key with an advisory lock on each job, and a re-check after locking"
    source = "Que 0.x, lib/que/sql.rb, as quoted in 'Postgres job queues and failure by MVCC' (2015)"
    options_type = QueOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    tables = ("que_jobs",)
    indexes = ("que_jobs_pkey",)
    claim_pattern = r"WITH RECURSIVE job AS"

    def __init__(self, connection: Any, options: QueOptions) -> None:
        """Serve ``connection``, with no job seen or locked."""
        super().__init__(connection, options)
        self._locked: deque[Sequence[bytes]] = deque()
        self._last: Sequence[bytes] = ()
        self._start_over_at_s = 0.0

    @classmethod
    def count_advisory_locks(cls, options: QueOptions) -> int:
        """One for each job of a batch."""
        return options.batch

    @classmethod
    def find_option_issue(cls, options: QueOptions, engine: str) -> tuple[str, str] | None:
        """Reject two mitigations at once, which would hide the effect of each."""
        if options.batch > 1 and options.claim_after_last:
            return "batch", f" is {options.batch}, but queue.claim_after_last is true; expected one of both"
        return None

    def install(self) -> None:
        """Create ``que_jobs`` as Que's migrations do."""
        self.execute("install")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert each job by Que's own statement; several share one transaction and one round trip."""
        queue, priority = self.options.queue.encode(), b"%d" % self.options.priority
        return self.insert(
            "insert_job",
            [(queue, priority, None, _JOB_CLASS, job.payload.encode()) for job in jobs],
        )

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs into the table."""
        ids = self.take_ids(len(jobs))
        queue, priority, job_class = self.options.queue, self.options.priority, _JOB_CLASS.decode()
        self.copy("load", ((job_id, queue, priority, job_class, job.payload) for job_id, job in zip(ids, jobs, strict=True)))
        return ids

    def claim(self) -> Sequence[Claim]:
        """Return one locked job after re-checking it; lock more if none is left."""
        if not self._locked:
            self._locked.extend(self._lock())
        if not self._locked:
            return []
        queue, priority, run_at, job_id, _, args, error_count = self._locked.popleft()
        key = (queue, priority, run_at, job_id)
        if self.options.recheck and self.execute("check_job", *key).ntuples == 0:
            self.execute("unlock_job", job_id)
            raise LostRaceError(int(job_id))
        return [
            Claim(
                job_id=int(job_id),
                attempt=int(error_count) + 1,
                payload=args.decode(),
                handle=key,
            )
        ]

    def _lock(self) -> Sequence[Sequence[bytes]]:
        """Walk, and return the rows of the jobs that were locked: none, one, or up to a batch."""
        queue = self.options.queue.encode()
        if self.options.batch > 1:
            result = self.execute("lock_jobs", queue, b"%d" % self.options.batch)
        elif self._last and time.monotonic() < self._start_over_at_s:
            result = self.execute("lock_job_after", queue, *self._last)
        else:
            result = self.execute("lock_job", queue)
            self._start_over_at_s = time.monotonic() + self.options.start_over_s
        rows = [read_row(result, row, 7) for row in range(result.ntuples)]
        if rows and self.options.claim_after_last:
            self._last = rows[-1][1:4]
        return rows

    def complete(self, claim: Claim) -> None:
        """Delete the job, then unlock it. For Que a missing row is no error."""
        self.execute("destroy_job", *claim.handle)
        self.execute("unlock_job", claim.handle[-1])

    def fail(self, claim: Claim, error: str) -> None:
        """Delay the job by Que's backoff, then unlock it."""
        failures = claim.attempt or 1
        self.execute(
            "set_error",
            b"%d" % failures,
            b"%d" % (failures**4 + 3),
            error.encode(),
            *claim.handle,
        )
        self.execute("unlock_job", claim.handle[-1])

    def backlog(self) -> Backlog:
        """Count what is due and unlocked."""
        return read_backlog(self.execute("backlog"))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the table and the advisory locks."""
        for job_id, claimed in self.stream("job_ids"):
            yield int(job_id), bool(claimed)
