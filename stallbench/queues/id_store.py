"""The ID store: one record with the list of unreserved ids, and jobs that are looked up by id.

A pop from the list is one atomic operation of the store: no two workers get the same id, and the cost does not depend on earlier jobs.
The list must fit into one record, whose size Aerospike limits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from pydantic import Field

from stallbench.queues.queue import Claim, QueueOptions, RefusedError
from stallbench.queues.store_queue import JobStore, StoreQueue

ID_BYTES = 8
"""Bytes of an id in the record, as the article calculates."""


class IdStoreOptions(QueueOptions):
    """Options of the record."""

    record_bytes: int = Field(
        default=128_000,
        ge=ID_BYTES,
        description="size at which the record with the list of ids is full; the article's 128 KB, which are 16 000 ids",
    )

    @property
    def most_ids(self) -> int:
        """How many ids fit into the record."""
        return self.record_bytes // ID_BYTES


class IdListStore(JobStore):
    """A store that keeps a list in one record and can pop its first element."""

    @abstractmethod
    def pop(self) -> int | None:
        """Take the first id off the list; none if it is empty."""

    @abstractmethod
    def fetch(self, job_id: int) -> Claim | None:
        """Return the job of that id; none if it is not there."""


class IdStore(StoreQueue[IdStoreOptions, IdListStore]):
    """Pop an id, then fetch its job. A popped id exists only in its worker."""

    kind = "id_store"
    summary = "pops the first id off a list in one record, then fetches its job; a full record takes no more jobs"
    engines = frozenset({"aerospike", "redis"})
    options_type = IdStoreOptions
    tables = ("id_store_jobs",)

    def claim(self) -> Sequence[Claim]:
        """Pop one id, and fetch its job."""
        job_id = self.store.pop()
        found = None if job_id is None else self.store.fetch(job_id)
        return [] if found is None else [found]


def refuse(ids: int, more: int, options: IdStoreOptions) -> RefusedError:
    """Return the error for an enqueue of so many ``more`` ids than are in the record already."""
    return RefusedError(
        f"record too big: {ids} ids of {ID_BYTES} bytes are in it and {more} more would exceed {options.record_bytes} bytes"
    )
