"""Unique jobs on a table with a status column: a job is enqueued only if no other has its key.

Under READ COMMITTED a check does not see a job that another transaction has inserted and not committed yet. So a check before the insert is a
race, and the longer the transaction that enqueues, the more often it is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from stallbench.queues.postgres_queue import read_int
from stallbench.queues.queue import NewJob, Precondition, RefusedError
from stallbench.queues.statements import read_statements
from stallbench.queues.status_column import StatusColumn, StatusColumnOptions

_STATEMENTS = read_statements(Path(__file__).with_suffix(".sql"))


class UniqueJobsOptions(StatusColumnOptions):
    """Options of the enqueue; those of the claim are those of `status_column`."""

    unique: Literal["none", "check", "advisory_lock", "on_conflict", "error"] = Field(
        default="on_conflict",
        description="how a second job with the same key is prevented: not at all; by a check before the insert; by the same under an advisory lock; "
        "by a unique index and ON CONFLICT DO NOTHING; by a unique index whose error the producer gets",
    )
    transaction_s: float = Field(
        default=0.0,
        ge=0,
        le=60,
        alias="transaction",
        description="seconds for which the transaction that enqueues does something else",
    )


class UniqueJobs(StatusColumn):
    """One job for each key."""

    kind = "unique_jobs"
    summary = "a job is refused if another one, completed or not, has its key; claims as status_column does"
    source = (
        "a check under an advisory lock: Oban, and River before 0.11; a unique index with ON CONFLICT: River since 0.11; "
        "a check alone: usual practice of applications"
    )
    options_type = UniqueJobsOptions
    used_job_fields = frozenset({"key"})

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Serve ``connection``."""
        super().__init__(connection, options)
        assert isinstance(options, UniqueJobsOptions)
        self._uniqueness = options
        self._preconditions: Mapping[int, Precondition] = {}
        self.statements |= _STATEMENTS

    def install(self) -> None:
        """Create the table and its indexes."""
        super().install()
        self.execute("add_key")
        self.execute("index_unique" if self._uniqueness.unique in ("on_conflict", "error") else "index_plain")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs in one transaction. Raises `RefusedError` for all of them if there is one with the key of any."""
        self.execute("begin")
        try:
            self.check_before_insert()
            ids = [self._insert(job) for job in jobs]
        except RefusedError:
            self.execute("rollback")
            raise
        if self._uniqueness.transaction_s:
            self.execute("go_on", str(self._uniqueness.transaction_s).encode())
        self.execute("commit")
        keyed = ((job_id, job.key) for job_id, job in zip(ids, jobs, strict=True) if job.key)
        self._preconditions = {job_id: Precondition(kind="key", subject=key) for job_id, key in keyed}
        return ids

    def check_before_insert(self) -> None:
        """Raise `RefusedError` if the jobs are not wanted, for another reason than their keys; called in the transaction that inserts them."""

    def _insert(self, job: NewJob) -> int:
        key, unique = job.key.encode(), self._uniqueness.unique
        if job.key and unique == "advisory_lock":
            self.execute("lock", key)
        if job.key and unique in ("check", "advisory_lock") and read_int(self.execute("check", key), 0):
            raise RefusedError(f"there is a job with key {job.key}")
        inserted = self.execute("insert_or_skip" if unique == "on_conflict" else "insert", key, job.payload.encode())
        if inserted.ntuples == 0:
            raise RefusedError(f"there is a job with key {job.key}")
        return read_int(inserted, 0)

    @property
    def preconditions(self) -> Mapping[int, Precondition]:
        """The keys of the jobs of the latest `enqueue`."""
        return self._preconditions

    def recover(self, error: Exception) -> bool:
        """Roll back, if the connection is still there."""
        if self.session.is_connection_lost(error):
            return False
        self.session.rollback()
        return True
