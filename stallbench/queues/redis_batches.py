"""Jobs are enqueued in a table, in the application's own transaction; a mover drains the table into Redis, where workers claim.

Only the mover reads past dead rows, once per batch. The cost is a second store, and no transaction spans both stores. If the mover dies between
the two writes, the batch is in both stores and its jobs are re-executed (``hand_over = "push_first"``), or it is in neither and its jobs are
lost (``"delete_first"``). Jobs in Redis are as durable as Redis: ``most_in_redis`` limits how many its crash can lose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from psycopg.pq import TransactionStatus
from pydantic import Field

from stallbench.queues.laravel_redis import LaravelRedis, LaravelRedisOptions, StoredJob
from stallbench.queues.postgres_queue import PostgresQueue, read_backlog, read_row
from stallbench.queues.queue import Backlog, Claim, NewJob, OptionRole, Promise, QueueOptions
from stallbench.queues.statements import read_statements

_NOTHING_TO_MOVE_S = 0.02


class RedisBatchesOptions(QueueOptions):
    """Options of the mover and of Redis."""

    batch: int = Field(default=100, ge=1, le=10_000, description="maximum number of jobs per batch of the mover")
    most_in_redis: int = Field(default=1000, ge=1, le=10_000_000, description="maximum number of jobs that wait in Redis")
    hand_over: Literal["push_first", "delete_first"] = Field(
        default="push_first",
        description="whether the mover pushes a batch to Redis before or after it commits the deletion from the table",
    )
    retry_after_s: Annotated[int, OptionRole.EXPIRY] = Field(
        default=90, ge=1, alias="retry_after", description="seconds after which a worker's reservation has expired"
    )


class RedisBatches(PostgresQueue[RedisBatchesOptions]):
    """A table in front of Laravel's queue on Redis. The scheduler is the mover."""

    kind = "redis_batches"
    statements = read_statements(Path(__file__).with_suffix(".sql"))
    summary = "a mover takes jobs from a table in batches and pushes them into Redis, where workers claim them"
    source = "'Postgres job queues and failure by MVCC' (2015), section Batch Jobs to Redis; the claim is Laravel's"
    options_type = RedisBatchesOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    claims_survive_connection = True
    puts_off_failed = False
    needs_scheduler = True
    claims_after_schedule = True
    second_engine = "redis"
    tables = ("redis_batches_jobs",)
    indexes = ("redis_batches_jobs_pkey",)
    claim_pattern = r"^DELETE FROM redis_batches_jobs .*SKIP LOCKED"

    _redis: LaravelRedis

    def attach(self, second: Any) -> None:
        """Use Redis."""
        super().attach(second)
        self._redis = LaravelRedis(second, LaravelRedisOptions(retry_after_s=self.options.retry_after_s))
        self._redis.clock = self._now_s

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Observe both connections."""
        super().observe_answers(call)
        self._redis.observe_answers(call)

    def _now_s(self) -> float:
        """Use the process's current clock, which a fault may have replaced."""
        return self.clock()

    def install(self) -> None:
        """Create the table; in Redis there is nothing to create."""
        self.execute("install")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs; several share one transaction and one round trip."""
        return self.insert("enqueue", [(job.payload.encode(),) for job in jobs])

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs into the table."""
        ids = self.take_ids(len(jobs))
        self.copy("load", ((job_id, job.payload) for job_id, job in zip(ids, jobs, strict=True)))
        return ids

    def schedule(self) -> float:
        """Move one batch, if it does not exceed the limit of jobs in Redis."""
        room = self.options.most_in_redis - self._redis.count_waiting()
        moved = self._move(min(self.options.batch, room)) if room > 0 else 0
        return 0.0 if moved else _NOTHING_TO_MOVE_S

    def _move(self, most: int) -> int:
        pushes_first = self.options.hand_over == "push_first"
        self.execute("begin")
        taken = self.execute("take_batch", b"%d" % most)
        rows = [read_row(taken, row, 3) for row in range(taken.ntuples)]
        jobs = sorted(StoredJob(int(job_id), payload.decode(), float(at_s)) for job_id, at_s, payload in rows)
        if jobs and pushes_first:
            self._redis.push(jobs)
        self.execute("commit")
        if jobs and not pushes_first:
            self._redis.push(jobs)
        return len(jobs)

    def claim(self) -> Sequence[Claim]:
        """Reserve a job in Redis."""
        return self._redis.claim()

    def complete(self, claim: Claim) -> None:
        """Remove the reservation."""
        self._redis.complete(claim)

    def fail(self, claim: Claim, error: str) -> None:
        """Put the job at the end of the list in Redis."""
        self._redis.fail(claim, error)

    def recover(self, error: Exception) -> bool:
        """Continue after an error of Redis outside a transaction; after any other error both connections are opened again."""
        from redis import ResponseError  # here: to list the queues must not take the tenth of a second of importing it

        return isinstance(error, ResponseError) and self.connection.info.transaction_status == TransactionStatus.IDLE

    def backlog(self) -> Backlog:
        """Count the ready jobs of both stores."""
        parts = [read_backlog(self.execute("backlog")), self._redis.backlog()]
        ages_s = [part.oldest_job_s for part in parts if part.oldest_job_s is not None]
        return Backlog(depth=sum(part.depth for part in parts), oldest_job_s=max(ages_s, default=None))

    def is_drained(self) -> bool:
        """Whether both are empty."""
        return read_backlog(self.execute("backlog")).depth == 0 and self._redis.is_drained()

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the table, then Redis, in the order in which a job moves; a job in both is reported once."""
        in_table = {int(job_id) for (job_id,) in self.stream("job_ids")}
        for job_id, claimed in self._redis.job_ids():
            in_table.discard(job_id)
            yield job_id, claimed
        yield from ((job_id, False) for job_id in sorted(in_table))
