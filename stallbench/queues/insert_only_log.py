"""An insert-only log: consumers take ranges of it, and a cursor records how far each range is executed.

No row is ever updated or deleted, so there are no dead tuples. Finished partitions are dropped, which does not depend on the horizon. A
transaction that has read the queue's own tables prevents this; until it ends, the log grows.

Promise: one consumer executes the jobs of a range in order, and ranges are given out in order. So a slow job delays only the jobs behind it
in its range. The next consumer continues the range of a dead one from its cursor on: only the job in progress is re-executed. A failed job
is appended to the log again. Cost: appends commit one after the other, so that no id becomes visible after a cursor has passed a greater one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from psycopg import errors
from pydantic import Field

from stallbench.queues.postgres_queue import PostgresQueue, read_backlog, read_int, read_row
from stallbench.queues.queue import Backlog, Claim, ClaimExpiredError, NewJob, OptionRole, Promise, QueueOptions, RefusedError
from stallbench.queues.statements import read_statements

_TURN_S = 1.0


class InsertOnlyLogOptions(QueueOptions):
    """Options of the log."""

    jobs_a_range: Annotated[int, OptionRole.BATCH] = Field(
        default=1, ge=1, le=10_000, alias="range", description="jobs that a consumer takes at once, at most"
    )
    jobs_a_partition: int = Field(default=10_000, ge=100, alias="partition", description="jobs in each partition")
    partitions_ahead: int = Field(
        default=4,
        ge=1,
        le=100,
        alias="ahead",
        description="partitions that are created in advance; without one, jobs are refused",
    )


class InsertOnlyLog(PostgresQueue[InsertOnlyLogOptions]):
    """Ranges of a partitioned log. A range belongs to the session that holds its advisory lock."""

    kind = "insert_only_log"
    statements = read_statements(Path(__file__).with_suffix(".sql"))
    summary = "an insert-only log: consumers take ranges and insert their progress; old partitions are dropped"
    source = "PgQ's event log with a position for each consumer (pgq.github.io), and Kafka's offsets; ranges instead of ticks"
    options_type = InsertOnlyLogOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    puts_off_failed = False
    claims_in_batches = True
    needs_scheduler = True
    tables = ("log_entries", "log_ranges", "log_positions")
    indexes = ("log_entries_pkey", "log_ranges_pkey", "log_positions_pkey")
    claim_pattern = r"FROM log_claim\("

    def __init__(self, connection: Any, options: InsertOnlyLogOptions) -> None:
        """Serve ``connection``, with no range taken."""
        super().__init__(connection, options)
        self._range: deque[Claim] = deque()
        self._unfinished = 0
        """No range that begins before this entry is unfinished."""

    @classmethod
    def count_advisory_locks(cls, options: InsertOnlyLogOptions) -> int:
        """One for its range, and one while taking it."""
        return 2

    def install(self) -> None:
        """Create the tables, their functions, and the first partitions."""
        for name in self.statements:
            if name.startswith("install"):
                self.execute(name)
        self._add_partitions()

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Append the jobs; several share one transaction and one round trip. Without a partition for them they are refused."""
        try:
            return self.insert("append", [(job.payload.encode(),) for job in jobs])
        except errors.CheckViolation as error:
            raise RefusedError(f"there is no partition ready: {error.diag.message_primary}") from error

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs to the end, and create the partitions that they need: the scheduler may not run yet."""
        with self.connection.transaction():
            self.execute("wait_for_turn")
            ids = self.take_ids(len(jobs))
            self._add_partitions()
            self.copy("load", ((job_id, job_id, job.payload) for job_id, job in zip(ids, jobs, strict=True)))
        return ids

    def claim(self) -> Sequence[Claim]:
        """Return the next job of the range; take another range if it is finished."""
        if not self._range:
            self._range.extend(self._take_range())
        return [self._range.popleft()] if self._range else []

    def _take_range(self) -> Iterator[Claim]:
        result = self.execute("claim", b"%d" % self.options.jobs_a_range, b"%d" % self._unfinished)
        for row in range(result.ntuples):
            unfinished, first, last, entry_id, job_id, attempts, payload = read_row(result, row, 7)
            self._unfinished = int(unfinished)
            handle = (entry_id, first if entry_id == last else None)
            yield Claim(job_id=int(job_id), attempt=int(attempts) + 1, payload=payload.decode(), handle=handle)

    def complete(self, claim: Claim) -> None:
        """Move the cursor past the job; release the range after its last job."""
        entry_id, finished_range = claim.handle
        if not self.execute("move", entry_id).command_tuples:
            raise ClaimExpiredError(claim.job_id)
        self._release_range(finished_range)

    def fail(self, claim: Claim, error: str) -> None:
        """Move the cursor past the job, and append it again."""
        entry_id, finished_range = claim.handle
        self.execute("reappend", error.encode(), entry_id)
        self._release_range(finished_range)

    def _release_range(self, finished_range: bytes | None) -> None:
        # Only after the end of the range is committed: the next holder of the lock reads it.
        if finished_range is not None:
            self.execute("release_range", finished_range)

    def schedule(self) -> float:
        """Drop finished partitions, unless another session uses the tables for more than a moment, and create new ones in advance."""
        before = read_int(self.execute("finished_before"), 0)
        for since in self._find_partitions():
            if since + self.options.jobs_a_partition > before:
                break
            try:
                self.execute("drop_partition", b"%d" % since)
            except errors.LockNotAvailable:
                break
        self._add_partitions()
        return _TURN_S

    def _find_partitions(self) -> list[int]:
        found = self.execute("partitions")
        return [int(read_row(found, row, 1)[0]) for row in range(found.ntuples)]

    def _add_partitions(self) -> None:
        size, there = self.options.jobs_a_partition, self._find_partitions()
        last = read_int(self.execute("last_place"), 0) // size + self.options.partitions_ahead
        for since in range(there[0] if there else 0, (last + 1) * size, size):
            if since not in there:
                self.execute("add_partition", b"%d" % since, b"%d" % size)

    def backlog(self) -> Backlog:
        """Count the jobs that no consumer has taken."""
        return read_backlog(self.execute("backlog"))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the log, its cursors, and the advisory locks."""
        for job_id, claimed in self.stream("job_ids"):
            yield int(job_id), bool(claimed)
