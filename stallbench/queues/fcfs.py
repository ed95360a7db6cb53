"""First come, first served: find the first job that is not reserved, then reserve it.

Between the two steps another worker may find the same job. Each search starts at the very first job, so it becomes slower with the number of
jobs that were reserved before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from stallbench.queues.queue import Claim, QueueOptions
from stallbench.queues.store_queue import JobStore, StoreQueue


class FcfsOptions(QueueOptions):
    """It has no options."""


class FcfsStore(JobStore):
    """A store that can scan its jobs in order, and mark one."""

    @abstractmethod
    def find_first_unprocessed(self) -> Claim | None:
        """Scan all jobs from the first one to one that is not reserved; None if there is none."""

    @abstractmethod
    def reserve(self, claim: Claim) -> None:
        """Mark the job as reserved, even if another worker has done so before."""


class Fcfs(StoreQueue[FcfsOptions, FcfsStore]):
    """Two steps without a lock between them, so the same job may be reserved twice."""

    kind = "fcfs"
    summary = "looks for the first job that is not reserved, then reserves it, in two steps"
    engines = frozenset({"aerospike", "redis", "postgres", "mariadb", "mysql"})
    options_type = FcfsOptions
    tables = ("fcfs_jobs",)
    claim_pattern = r"^SELECT id, payload FROM fcfs_jobs WHERE state"

    def claim(self) -> Sequence[Claim]:
        """Find a job, then reserve it."""
        found = self.store.find_first_unprocessed()
        if found is None:
            return []
        self.store.reserve(found)
        return [found]
