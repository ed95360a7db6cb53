"""A status column: claimed by a single UPDATE, and marked as done, with a partial index on what is ready.

Current common practice on PostgreSQL: no transaction stays open while a job is executed. The cost is that a dead worker's job waits until its
claim expires, and that each job leaves two or three dead row versions instead of one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from stallbench.queues.postgres_queue import RESCUES_PER_EXPIRY, PostgresQueue, read_backlog, read_row
from stallbench.queues.queue import Backlog, Claim, ClaimExpiredError, NewJob, OptionRole, Promise, QueueOptions
from stallbench.queues.statements import fill_placeholders, read_statements

_STATEMENTS = read_statements(Path(__file__).with_suffix(".sql"))
_PARTITIONS_AHEAD = 3
"""Partitions for jobs that are not enqueued yet; jobs after these share one more."""
_FILLED = "WITH (fillfactor = {fillfactor})"
_PARTITIONED = "PARTITION BY RANGE (job_id)"


class StatusColumnOptions(QueueOptions):
    """Options of the table, and of completed jobs."""

    finish: Literal["mark", "delete"] = Field(default="mark", description="whether a completed job is marked as done or deleted")
    index: Literal["partial", "none"] = Field(
        default="partial",
        description="index on ready jobs, or only the primary key: no index on what changes, so that updates can be HOT",
    )
    payload_index: Literal["none", "gin", "gin_without_fastupdate", "btree"] = Field(
        default="none",
        description="index on the arguments, as queues have that search for jobs: a GIN index on all of them, with or without fastupdate, "
        "or a B-tree on one",
    )
    fillfactor: int = Field(default=100, ge=10, le=100, description="percent of a page that INSERT fills")
    parent: Literal["none", "referenced", "unreferenced"] = Field(
        default="none",
        description="whether there is a table of queues, and whether a job's column `queue` is a foreign key to it, as in pg-boss",
    )
    expire_after_s: Annotated[int, OptionRole.EXPIRY] = Field(
        default=60,
        ge=1,
        alias="expire_after",
        description="seconds after which a claim expires and another worker may claim the job",
    )
    retained: int = Field(
        default=0, ge=0, le=10_000_000, description="completed jobs of earlier days that the table contains before the run"
    )
    partition: int | None = Field(
        default=None, ge=100, description="jobs in each partition of the table; none for a table without partitions"
    )


class StatusColumn(PostgresQueue[StatusColumnOptions]):
    """One statement claims; nothing is locked while a job is executed."""

    kind = "status_column"
    summary = "UPDATE .. WHERE id = (SELECT .. FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING, with a status and a partial index on ready jobs"
    source = (
        "usual practice, as in River (river_job.state) and Procrastinate (procrastinate_jobs.status and its partial indexes); fillfactor "
        "and no index on what changes: PostgreSQL's documentation of Heap-Only Tuples"
    )
    options_type = StatusColumnOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    claims_survive_connection = True
    tables: ClassVar[tuple[str, ...]] = ("status_column_jobs",)
    indexes: ClassVar[tuple[str, ...]] = (
        "status_column_jobs_pkey",
        "status_column_jobs_ready",
        "status_column_jobs_claimed",
        "status_column_jobs_payload",
    )
    claim_pattern = r"^UPDATE status_column_jobs .*SKIP LOCKED"

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Serve ``connection``; the first claim checks for expired claims."""
        super().__init__(connection, options)
        self._rescue_at_s = 0.0
        placeholders = {
            "{storage}": _PARTITIONED if options.partition else _FILLED,
            "{fillfactor}": str(options.fillfactor),
            "{expire_after}": str(options.expire_after_s),
            "{partition}": str(options.partition),
            "{partitioned}": str(options.retained + _PARTITIONS_AHEAD * (options.partition or 0)),
        }
        self.statements = {name: fill_placeholders(statement, placeholders) for name, statement in _STATEMENTS.items()}

    @property
    def _expire_after(self) -> bytes:
        return b"%d" % self.options.expire_after_s

    def install(self) -> None:
        """Create ``status_column_jobs`` and, if there are to be any, its indexes, the table of queues and completed jobs."""
        self.execute("install")
        if self.options.partition is not None:
            self.execute("partition")
        if self.options.index == "partial":
            self.execute("index_ready")
            self.execute("index_claimed")
        if self.options.payload_index != "none":
            self.execute(f"index_payload_{self.options.payload_index}")
        if self.options.parent != "none":
            self.execute("create_queues")
            self.execute("add_queue")
            self.execute("name_queue")
        if self.options.parent == "referenced":
            self.execute("reference_queue")
        if self.options.retained:
            self.execute("retain", b"%d" % self.options.retained)
            self.execute("publish")
            self.execute("vacuum")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs; several share one transaction and one round trip."""
        return self.insert("enqueue", [(job.payload.encode(),) for job in jobs])

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs into the table."""
        ids = self.take_ids(len(jobs))
        self.copy("load", ((job_id, job.payload) for job_id, job in zip(ids, jobs, strict=True)))
        return ids

    def claim(self) -> Sequence[Claim]:
        """Claim one job; release expired claims first, ten times per expiry interval."""
        if time.monotonic() >= self._rescue_at_s:
            self.execute("rescue", self._expire_after)
            self._rescue_at_s = time.monotonic() + self.options.expire_after_s / RESCUES_PER_EXPIRY
        claimed = self.execute("claim")
        if claimed.ntuples == 0:
            return []
        job_id, attempts, payload = read_row(claimed, 0, 3)
        return [Claim(job_id=int(job_id), attempt=int(attempts), payload=payload.decode(), handle=(job_id, attempts))]

    def complete(self, claim: Claim) -> None:
        """Mark the job as done, or delete it; raises `ClaimExpiredError` if another worker has it by now."""
        if not self.execute(f"complete_{self.options.finish}", *claim.handle).command_tuples:
            raise ClaimExpiredError(claim.job_id)

    def fail(self, claim: Claim, error: str) -> None:
        """Delay the job. Raises `ClaimExpiredError` if another worker has it by now."""
        if not self.execute("fail", error.encode(), *claim.handle).command_tuples:
            raise ClaimExpiredError(claim.job_id)

    def backlog(self) -> Backlog:
        """Count what is due and ready, and what has expired."""
        return read_backlog(self.execute("backlog", self._expire_after))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Iterate over the jobs that are not done."""
        for job_id, claimed in self.stream("job_ids"):
            yield int(job_id), bool(claimed)
