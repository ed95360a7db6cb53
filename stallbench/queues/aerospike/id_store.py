"""The ID store on Aerospike, as the article has it: a list in one record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aerospike import exception
from aerospike_helpers import expressions
from aerospike_helpers.operations import list_operations

from stallbench.queues.aerospike.store import AerospikeStore, as_backlog, as_claim
from stallbench.queues.id_store import IdListStore, IdStoreOptions, refuse
from stallbench.queues.queue import Backlog, Claim, NewJob, RefusedError

_LIST = "ids"


class AerospikeIdList(AerospikeStore, IdListStore):
    """The list, with the article's limit. If the server's limit is smaller, the server refuses earlier."""

    def __init__(self, connection: Any, options: IdStoreOptions) -> None:
        """Serve ``connection``."""
        super().__init__(connection, "id_store")
        self._options = options

    def install(self) -> None:
        """Begin with an empty list."""
        self.client.put(self.store, {"last_id": 0, _LIST: []})

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Write the jobs, then append their ids; if they do not fit into the record, remove the jobs again."""
        ids = self.take_ids(len(jobs))
        self.write(ids, jobs, ids)
        try:
            self._append(ids)
        except RefusedError:
            self.remove(ids)
            raise
        return ids

    def pop(self) -> int | None:
        """Pop the first, as one operation. A range of an empty list is empty; a single element of it would be an error, which the server logs."""
        popped = self.change_store([list_operations.list_pop_range(_LIST, 0, 1)])[_LIST]
        return int(popped[0]) if popped else None

    def fetch(self, job_id: int) -> Claim | None:
        """Get the record."""
        return as_claim(self.read(job_id))

    def complete(self, claim: Claim) -> None:
        """Remove the record."""
        self.remove([claim.job_id])

    def release(self, claim: Claim) -> None:
        """Append the id once more; a record that is full by now does not take it back either, and raises `RefusedError`."""
        self._append([claim.job_id])

    def backlog(self) -> Backlog:
        """Look at the list and its first job."""
        ids = self.read_store()[_LIST]
        return as_backlog(len(ids), self.read(ids[0]) if ids else None)

    def is_drained(self) -> bool:
        """Whether no id that was given has a job."""
        return next(self.job_ids(), None) is None

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Look for every id that was given; what is not in the list is reserved."""
        store = self.read_store()
        queued = set(store[_LIST])
        for job_id, _ in self.held(range(1, int(store["last_id"]) + 1)):
            yield job_id, job_id not in queued

    def _append(self, ids: Sequence[int]) -> None:
        """Append the ids; raises `RefusedError`, which says whose limit the record has reached."""
        has_room = expressions.LE(expressions.ListSize(None, expressions.ListBin(_LIST)), self._options.most_ids - len(ids))
        try:
            self.change_store([list_operations.list_append_items(_LIST, list(ids))], only_if=has_room)
        except exception.FilteredOut:
            raise refuse(len(self.read_store()[_LIST]), len(ids), self._options) from None
        except exception.RecordTooBig:
            held = len(self.read_store()[_LIST])
            raise RefusedError(
                f"record too big: {held} ids are in it, and with {len(ids)} more it would exceed the server's own limit for a record "
                f"(max-record-size, write-block-size), which is reached before the queue's record_bytes of {self._options.record_bytes}"
            ) from None


STORE = AerospikeIdList
