"""A queue under test: how its jobs are enqueued, claimed and completed. Replace the statements in my_queue.sql by your own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from stallbench.queues.postgres_queue import PostgresQueue, read_backlog, read_int, read_text
from stallbench.queues.queue import Backlog, Claim, NewJob, Promise, QueueOptions
from stallbench.queues.statements import read_statements


class MyQueue(PostgresQueue[QueueOptions]):
    """``FOR UPDATE SKIP LOCKED``: the row lock is the claim, and the job is deleted in the transaction that locked it."""

    kind = "my_queue"
    statements = read_statements(Path(__file__).with_suffix(".sql"))
    summary = "FOR UPDATE SKIP LOCKED on the first free row, deleted in the same transaction"
    source = "our own application"
    options_type = QueueOptions
    promise = Promise.AT_LEAST_ONCE  # a job is re-executed only after an attempt that failed or died
    ordered = True  # jobs are claimed in the order in which they were enqueued
    tables = ("my_jobs",)
    indexes = ("my_jobs_pkey",)
    claim_pattern = r"FROM my_jobs .*SKIP LOCKED"  # finds the claim among all statements of the server

    def install(self) -> None:
        """Create the table."""
        self.execute("install")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs in one transaction, and return their ids."""
        return self.insert("enqueue", [(job.payload.encode(),) for job in jobs])

    def claim(self) -> Sequence[Claim]:
        """Begin a transaction and lock a job; if there is none, end the transaction."""
        self.execute("begin")
        locked = self.execute("claim")
        if locked.ntuples == 0:
            self.execute("commit")
            return []
        job_id, attempt, payload = read_text(locked, 0), read_int(locked, 1) + 1, read_text(locked, 2).decode()
        return [Claim(job_id=int(job_id), attempt=attempt, payload=payload, handle=job_id)]

    def complete(self, claim: Claim) -> None:
        """Delete the job and commit."""
        self.execute("complete", claim.handle)
        self.execute("commit")

    def fail(self, claim: Claim, error: str) -> None:
        """Count the attempt, delay the job, and commit."""
        self.execute("fail", error.encode(), claim.handle)
        self.execute("commit")

    def backlog(self) -> Backlog:
        """Count what is due and not locked."""
        return read_backlog(self.execute("backlog"))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read every job, and whether it is locked."""
        for job_id, claimed in self.stream("job_ids"):
            yield int(job_id), bool(claimed)
