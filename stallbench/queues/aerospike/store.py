"""Base of the article's stores on Aerospike: a set with one record for each job, under its id, and one more record for the store.

A server that keeps its data in memory has none after a restart. So whatever changes a record changes only one that exists: a counter that was
created again would give numbers to new jobs that other jobs have had before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import aerospike
from aerospike import exception
from aerospike_helpers.operations import operations

from stallbench.queues.queue import Backlog, Claim, NewJob
from stallbench.queues.sql_store import now_ms
from stallbench.queues.store_queue import JobStore

_MOST_AT_ONCE = 1000
"""Records that are read at once, at most. A walk begins with one record and doubles, so that its cost fits the distance from the first position."""
UPDATE_ONLY: Mapping[str, Any] = {"exists": aerospike.POLICY_EXISTS_UPDATE}
"""The policy of a write that must not create its record; it raises `exception.RecordNotFound`."""
_GONE = (
    "the queue's record is not on the Aerospike server: the server was restarted and keeps its data in memory, or somebody has removed it. "
    "Its jobs are lost"
)
_FOUND = 0
"""Result code of a record that there is."""
_ALL_IN_ONE = "store"

Record = Mapping[str, Any]
"""A record's bins by name."""


class AerospikeStore(JobStore):
    """All operations are on one record, and are therefore atomic."""

    def __init__(self, connection: Any, name: str) -> None:
        """Serve ``connection``: a client, a namespace and the prefix of the run's sets."""
        super().__init__(connection)
        self.client = connection.client
        self._jobs_set = connection.jobs_set(name)
        self.store = (connection.namespace, connection.store_set(name), _ALL_IN_ONE)
        """Key of the record beside the jobs."""

    def job_key(self, number: int) -> tuple[str, str, int]:
        """Return the key of a job by the number that it is found by."""
        return self.connection.namespace, self._jobs_set, number

    def count_up(self, name: str, by: int) -> int:
        """Add to a counter of the store's record and return what it has become, as one operation."""
        return int(self.change_store([operations.increment(name, by), operations.read(name)])[name])

    def change_store(self, changes: Sequence[Any], only_if: Any = None) -> Record:
        """Carry out operations on the store's record, as one, and return the bins that they read.

        ``only_if``: an expression; raises `exception.FilteredOut` if it is not true. Raises `exception.RecordNotFound` if the record is gone.
        """
        policy = dict(UPDATE_ONLY) if only_if is None else {**UPDATE_ONLY, "expressions": only_if.compile()}
        try:
            _, _, bins = self.client.operate(self.store, list(changes), policy=policy)
        except exception.RecordNotFound:
            raise store_is_gone() from None
        return dict(bins or {})

    def write(self, numbers: Sequence[int], jobs: Sequence[NewJob], ids: Sequence[int]) -> None:
        """Write jobs under the numbers that they are found by."""
        at_ms = now_ms()
        for number, job, job_id in zip(numbers, jobs, ids, strict=True):
            self.client.put(self.job_key(number), {"id": job_id, "payload": job.payload, "at_ms": at_ms, "state": 0})

    def take_ids(self, count: int) -> Sequence[int]:
        """Return so many new ids."""
        last = self.count_up("last_id", count)
        return range(last - count + 1, last + 1)

    def read(self, number: int) -> Record | None:
        """Return a job; none if there is none."""
        try:
            _, _, bins = self.client.get(self.job_key(number))
        except exception.RecordNotFound:
            return None
        return dict(bins)

    def read_store(self) -> Record:
        """Return the record beside the jobs; raises `exception.RecordNotFound` if it is gone."""
        try:
            _, _, bins = self.client.get(self.store)
        except exception.RecordNotFound:
            raise store_is_gone() from None
        return dict(bins)

    def held(self, numbers: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """Go through those jobs that there are, in the order of ``numbers``, many at once."""
        left = iter(numbers)
        count = 1
        while some := list(islice(left, count)):
            count = min(2 * count, _MOST_AT_ONCE)
            found = self.client.batch_read([self.job_key(number) for number in some]).batch_records
            yield from ((number, each.record[2]) for number, each in zip(some, found, strict=True) if each.result == _FOUND)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove jobs."""
        for number in numbers:
            self.client.remove(self.job_key(number))

    def is_usable_after(self, error: Exception) -> bool:
        """Continue after an operation that the server refused; a client that has lost its cluster is opened again."""
        return isinstance(error, exception.ServerError) and bool(self.client.is_connected())


def store_is_gone() -> Exception:
    """Return the error for a store whose record is not on the server."""
    gone: Exception = exception.RecordNotFound(_GONE)
    return gone


def as_claim(job: Record | None, handle: object = None) -> Claim | None:
    """Return the claim of a job; none if there is none."""
    return None if job is None else Claim(job_id=int(job["id"]), attempt=None, payload=job["payload"], handle=handle)


def as_backlog(depth: int, oldest: Record | None) -> Backlog:
    """Return how many jobs wait, and since when the oldest does."""
    age_s = None if oldest is None or depth <= 0 else max(0.0, (now_ms() - int(oldest["at_ms"])) / 1000)
    return Backlog(depth=max(0, depth), oldest_job_s=age_s)
