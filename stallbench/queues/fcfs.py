"""First come, first served: look for the first job that nobody has, then reserve it.

Between the two steps another worker may find the same job. And the look begins at the first job of all each time, so that it takes the longer
the more jobs have been reserved before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from stallbench.queues.queue import Claim, QueueOptions
from stallbench.queues.store_queue import JobStore, StoreQueue


class FcfsOptions(QueueOptions):
    """There is nothing to choose."""


class FcfsStore(JobStore):
    """A store that can look through its jobs in their order, and mark one."""

    @abstractmethod
    def find_first_unprocessed(self) -> Claim | None:
        """Walk through all jobs from the first one on, to one that is not reserved; none if there is none."""

    @abstractmethod
    def reserve(self, claim: Claim) -> None:
        """Mark the job as reserved, whoever may have done that before."""


class Fcfs(StoreQueue[FcfsOptions, FcfsStore]):
    """Two steps and nothing between them that keeps others out; it cannot promise what it does not check."""

    kind = "fcfs"
    summary = "looks for the first job that is not reserved, then reserves it, in two steps"
    engines = frozenset({"aerospike", "redis", "postgres", "mariadb", "mysql"})
    options_type = FcfsOptions
    tables = ("fcfs_jobs",)

    def claim(self, limit: int = 1) -> Sequence[Claim]:
        """Find a job, then reserve it, whatever ``limit`` is."""
        found = self.store.find_first_unprocessed()
        if found is None:
            return []
        self.store.reserve(found)
        return [found]
