"""A worker claims a batch of jobs by one statement, and a scheduler changes all waiting jobs by another: both lock many rows.

If they lock the same rows in different orders, each can wait for the other: a deadlock, which the server breaks after ``deadlock_timeout``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from stallbench.queues.postgres_queue import RESCUES_PER_EXPIRY, PostgresQueue, read_backlog, read_row
from stallbench.queues.queue import Backlog, Claim, ClaimExpiredError, NewJob, OptionRole, Promise, QueueOptions
from stallbench.queues.statements import fill_placeholders, read_statements

_STATEMENTS = read_statements(Path(__file__).with_suffix(".sql"))
_PRIORITIES = 1000


class BatchClaimOptions(QueueOptions):
    """Options of the claim, and of the scheduler."""

    batch: Annotated[int, OptionRole.BATCH] = Field(
        default=1, ge=1, le=1000, description="jobs that one claim locks; the worker executes them one by one"
    )
    lock: Literal["wait", "skip_locked", "by_id"] = Field(
        default="wait",
        description="how the claim locks its jobs: in the order of their priority, waiting for each; in this order, leaving out locked ones; "
        "or, like the scheduler, in the order of their ids",
    )
    age_every_s: float = Field(
        default=1.0,
        gt=0,
        le=3600,
        alias="age_every",
        description="seconds between two times that the scheduler ages all waiting jobs",
    )
    expire_after_s: Annotated[int, OptionRole.EXPIRY] = Field(
        default=60,
        ge=1,
        alias="expire_after",
        description="seconds after which a claim expires and another worker may claim the job",
    )


class BatchClaim(PostgresQueue[BatchClaimOptions]):
    """Priorities that improve while a job waits, so that none starves; jobs are deleted when they are completed."""

    kind = "batch_claim"
    summary = "UPDATE of a batch chosen by priority; a scheduler improves the priority of all waiting jobs by one UPDATE"
    source = (
        "batches that are locked in one order beside an update in another: River issue 1059, openobserve pull request 13251, "
        "sentry taskbroker pull request 778, pg-boss issue 282"
    )
    options_type = BatchClaimOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = False
    claims_survive_connection = True
    claims_in_batches = True
    needs_scheduler = True
    tables = ("batch_claim_jobs",)
    indexes = ("batch_claim_jobs_pkey", "batch_claim_jobs_ready", "batch_claim_jobs_claimed")
    claim_pattern = r"^WITH (found|chosen) .* UPDATE batch_claim_jobs SET status ="

    def __init__(self, connection: Any, options: BatchClaimOptions) -> None:
        """Serve ``connection``; the first claim checks for expired claims."""
        super().__init__(connection, options)
        self._rescue_at_s = 0.0
        self._batch: deque[Claim] = deque()
        """Jobs that were claimed with the latest batch and are not begun."""
        placeholders = {
            "{batch}": str(options.batch),
            "{skip}": "SKIP LOCKED" if options.lock == "skip_locked" else "",
            "{expire_after}": str(options.expire_after_s),
        }
        self.statements = {name: fill_placeholders(statement, placeholders) for name, statement in _STATEMENTS.items()}

    @property
    def _expire_after(self) -> bytes:
        return b"%d" % self.options.expire_after_s

    def install(self) -> None:
        """Create ``batch_claim_jobs`` and its indexes."""
        for statement in ("install", "index_ready", "index_claimed"):
            self.execute(statement)

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs, each with a random priority; several share one transaction and one round trip."""
        return self.insert("enqueue", [(b"%d" % self._draw_priority(), job.payload.encode()) for job in jobs])

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs into the table."""
        ids = self.take_ids(len(jobs))
        self.copy("load", ((job_id, self._draw_priority(), job.payload) for job_id, job in zip(ids, jobs, strict=True)))
        return ids

    def _draw_priority(self) -> int:
        return self.random.randrange(_PRIORITIES)

    def claim(self) -> Sequence[Claim]:
        """Take the next job of the batch, or claim another batch; release expired claims first, ten times per expiry interval."""
        if not self._batch:
            if time.monotonic() >= self._rescue_at_s:
                self.execute("rescue", self._expire_after)
                self._rescue_at_s = time.monotonic() + self.options.expire_after_s / RESCUES_PER_EXPIRY
            claimed = self.execute("claim_by_id" if self.options.lock == "by_id" else "claim_in_turn")
            for row in range(claimed.ntuples):
                job_id, attempts, payload = read_row(claimed, row, 3)
                self._batch.append(
                    Claim(job_id=int(job_id), attempt=int(attempts), payload=payload.decode(), handle=(job_id, attempts))
                )
        return [self._batch.popleft()] if self._batch else []

    def complete(self, claim: Claim) -> None:
        """Delete the job; raises `ClaimExpiredError` if another worker has it by now."""
        if not self.execute("complete", *claim.handle).command_tuples:
            raise ClaimExpiredError(claim.job_id)

    def fail(self, claim: Claim, error: str) -> None:
        """Delay the job. Raises `ClaimExpiredError` if another worker has it by now."""
        if not self.execute("fail", error.encode(), *claim.handle).command_tuples:
            raise ClaimExpiredError(claim.job_id)

    def recover(self, error: Exception) -> bool:
        """After a deadlock, in which the server rolled the statement back, the connection can be used again."""
        return self.session.is_conflict(error) and not self.session.is_connection_lost(error)

    def schedule(self) -> float:
        """Improve the priority of all jobs that wait."""
        self.execute("age_by_id" if self.options.lock == "by_id" else "age")
        return self.options.age_every_s

    def deregister(self) -> None:
        """Return the jobs of the batch that are not begun."""
        while self._batch:
            self.execute("release", *self._batch.popleft().handle)

    def backlog(self) -> Backlog:
        """Count what is due and ready, and what has expired."""
        return read_backlog(self.execute("backlog", self._expire_after))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Iterate over the jobs."""
        for job_id, claimed in self.stream("job_ids"):
            yield int(job_id), bool(claimed)
