"""Several queues in one table: a claim finds the jobs of its queue, or of the queue whose turn it is, among those of all queues.

Most libraries on PostgreSQL keep all their queues in one table. How much of the table a claim reads depends on the index, on whether the planner
may use it, and on what it knows of the table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from stallbench.queues.other_jobs import HasOtherJobs
from stallbench.queues.postgres_queue import RESCUES_PER_EXPIRY, PostgresQueue, read_backlog, read_int, read_row
from stallbench.queues.queue import (
    DEFAULT_QUEUE,
    Backlog,
    Claim,
    ClaimExpiredError,
    NewJob,
    OptionRole,
    Precondition,
    Promise,
    QueueOptions,
)
from stallbench.queues.statements import fill_placeholders, read_statements

_STATEMENTS = read_statements(Path(__file__).with_suffix(".sql"))
_OWN = DEFAULT_QUEUE.encode()
_OTHER_JOBS_AT_ONCE = 10_000
_INDEXES = {"ready": ("ready",), "queue": ("queue",), "ready_and_queue": ("ready", "queue"), "run_at": ("run_at",)}


class SharedTableOptions(QueueOptions):
    """Options of the table and of the claim."""

    claim: Literal["one_queue", "all_queues", "round_robin", "strict", "limited"] = Field(
        default="one_queue",
        description="which job a worker claims: the first of its queue; the first of all queues; the first of the next queue, in turn; "
        "the first of the first queue by name that has one, which is strict priority; the first of the queues that have fewer than `limit` claimed jobs",
    )
    limit: int = Field(default=1, ge=1, description="with `limited`: how many jobs of one queue may be claimed at once")
    index: Literal["ready", "queue", "ready_and_queue", "run_at"] = Field(
        default="queue",
        description="index on ready jobs: by id; by queue and id; both; or by queue and due time, which is then the order of the claims",
    )
    parameters: bool = Field(
        default=False,
        description="whether the claim has its queue and status as parameters instead of constants, as object-relational mappers send it",
    )
    partitioned: bool = Field(default=False, description="whether the queue that the workers serve has a partition of its own")
    expire_after_s: Annotated[int, OptionRole.EXPIRY] = Field(
        default=60,
        ge=1,
        alias="expire_after",
        description="seconds after which a claim expires and another worker may claim the job",
    )


class SharedTable(PostgresQueue[SharedTableOptions], HasOtherJobs):
    """One statement claims; jobs are deleted when they are completed."""

    kind = "shared_table"
    summary = "several queues in one table; UPDATE .. WHERE (queue, id) = (SELECT .. FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING"
    source = (
        "usual practice, as in pg-boss, PgQueuer, GoodJob and Oban; strict priority: Solid Queue's list of queues; "
        "round robin by tenant: sourcegraph issue 35981, postel issue 126; "
        "a limit for each queue: PgQueuer's concurrency_limit"
    )
    options_type = SharedTableOptions
    used_job_fields = frozenset({"queue"})
    promise = Promise.AT_LEAST_ONCE
    ordered = False
    claims_survive_connection = True
    other_job_states = ("ready", "failed", "future")
    tables = ("shared_jobs",)
    indexes = ("shared_jobs_pkey", "shared_jobs_ready", "shared_jobs_queue", "shared_jobs_run_at", "shared_jobs_claimed")
    claim_pattern = r"^UPDATE shared_jobs .*SKIP LOCKED"

    def __init__(self, connection: Any, options: SharedTableOptions) -> None:
        """Serve ``connection``; the first claim checks for expired claims."""
        super().__init__(connection, options)
        self._rescue_at_s = 0.0
        self._latest_queue = b""
        self._preconditions: Mapping[int, Precondition] = {}
        self._parameters = (_OWN, b"ready") if options.parameters and options.claim == "one_queue" else ()
        placeholders = {
            "{choice}": _STATEMENTS[options.claim],
            "{key}": "queue, job_id" if options.partitioned else "job_id",
            "{partitioned}": "PARTITION BY LIST (queue)" if options.partitioned else "",
            "{queue}": "$1" if options.parameters else "'default'",
            "{status}": "$2" if options.parameters else "'ready'",
            "{order}": "run_at, job_id" if options.index == "run_at" else "job_id",
            "{limit}": str(options.limit),
            "{expire_after}": str(options.expire_after_s),
        }
        self.statements = {name: fill_placeholders(statement, placeholders) for name, statement in _STATEMENTS.items()}

    @property
    def _expire_after(self) -> bytes:
        return b"%d" % self.options.expire_after_s

    def install(self) -> None:
        """Create ``shared_jobs``, its partitions if it is to have any, and the indexes."""
        self.execute("install_ids")
        self.execute("install")
        if self.options.partitioned:
            self.execute("install_own_partition")
            self.execute("install_other_partition")
        for index in (*_INDEXES[self.options.index], "claimed", "backlog"):
            self.execute(f"index_{index}")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs; several share one transaction and one round trip."""
        return self._record(jobs, self.insert("enqueue", [(job.queue.encode(), job.payload.encode()) for job in jobs]))

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs into the table."""
        ids = self.take_ids(len(jobs))
        self.copy("load", ((job_id, job.queue, job.payload) for job_id, job in zip(ids, jobs, strict=True)))
        return self._record(jobs, ids)

    def _record(self, jobs: Sequence[NewJob], ids: Sequence[int]) -> Sequence[int]:
        named = ((job_id, job.queue) for job_id, job in zip(ids, jobs, strict=True) if job.queue != _OWN.decode())
        self._preconditions = {job_id: Precondition(kind="queue", subject=queue) for job_id, queue in named}
        return ids

    @property
    def preconditions(self) -> Mapping[int, Precondition]:
        """The queues of those jobs of the latest `enqueue` or `load` that are not in the default one."""
        return self._preconditions

    def claim(self) -> Sequence[Claim]:
        """Claim one job; release expired claims first, ten times per expiry interval."""
        if time.monotonic() >= self._rescue_at_s:
            self.execute("rescue", self._expire_after)
            self._rescue_at_s = time.monotonic() + self.options.expire_after_s / RESCUES_PER_EXPIRY
        in_turn = self.options.claim == "round_robin"
        claimed = self.execute("claim", *((self._latest_queue,) if in_turn else self._parameters))
        if claimed.ntuples == 0 and self._latest_queue:
            self._latest_queue = b""
            claimed = self.execute("claim", self._latest_queue)
        if claimed.ntuples == 0:
            return []
        job_id, attempts, payload, queue = read_row(claimed, 0, 4)
        self._latest_queue = queue if in_turn else b""
        return [Claim(job_id=int(job_id), attempt=int(attempts), payload=payload.decode(), handle=(queue, job_id, attempts))]

    def complete(self, claim: Claim) -> None:
        """Delete the job; raises `ClaimExpiredError` if another worker has it by now."""
        if not self.execute("complete", *claim.handle).command_tuples:
            raise ClaimExpiredError(claim.job_id)

    def fail(self, claim: Claim, error: str) -> None:
        """Delay the job. Raises `ClaimExpiredError` if another worker has it by now."""
        if not self.execute("fail", error.encode(), *claim.handle).command_tuples:
            raise ClaimExpiredError(claim.job_id)

    def add_other_jobs(self, count: int, state: str) -> None:
        """Add them, in short transactions: a long one would hold the horizon, and claims would read past dead rows as well."""
        for begin in range(0, count, _OTHER_JOBS_AT_ONCE):
            self.execute(f"add_{state}", b"%d" % min(_OTHER_JOBS_AT_ONCE, count - begin))

    def count_other_jobs(self) -> int:
        """Count them."""
        return read_int(self.execute("count_other"), 0)

    def remove_other_jobs(self) -> None:
        """Delete them."""
        self.execute("remove_other")

    def backlog(self) -> Backlog:
        """Count what is due and ready, and what has expired, in the queues that the workers serve."""
        served = "default" if self.options.claim == "one_queue" else "all"
        return read_backlog(self.execute(f"backlog_{served}", self._expire_after))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Iterate over the jobs that the bench enqueued."""
        for job_id, claimed in self.stream("job_ids"):
            yield int(job_id), bool(claimed)
