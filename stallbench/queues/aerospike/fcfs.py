"""First come, first served on Aerospike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stallbench.queues.aerospike.store import UPDATE_ONLY, AerospikeStore, as_backlog, as_claim
from stallbench.queues.fcfs import FcfsOptions, FcfsStore
from stallbench.queues.queue import Backlog, Claim, NewJob

_UNPROCESSED, _RESERVED, _PROCESSED = range(3)


class AerospikeFcfs(AerospikeStore, FcfsStore):
    """All jobs stay, each with its state; a walk begins at the first id."""

    def __init__(self, connection: Any, options: FcfsOptions) -> None:
        """Serve ``connection``."""
        super().__init__(connection, "fcfs")

    def install(self) -> None:
        """Begin to count."""
        self.client.put(self.store, {"last_id": 0})

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Write each under its id."""
        ids = self.take_ids(len(jobs))
        self.write(ids, jobs, ids)
        return ids

    def find_first_unprocessed(self) -> Claim | None:
        """Walk."""
        return as_claim(next((job for _, job in self._all() if job["state"] == _UNPROCESSED), None))

    def reserve(self, claim: Claim) -> None:
        """Set its state, even if another worker has changed it in between."""
        self._set_state(claim, _RESERVED)

    def complete(self, claim: Claim) -> None:
        """Set its state; it stays."""
        self._set_state(claim, _PROCESSED)

    def release(self, claim: Claim) -> None:
        """Set its state; its place is the old one."""
        self._set_state(claim, _UNPROCESSED)

    def backlog(self) -> Backlog:
        """Walk to the end."""
        waiting = [job for _, job in self._all() if job["state"] == _UNPROCESSED]
        return as_backlog(len(waiting), waiting[0] if waiting else None)

    def is_drained(self) -> bool:
        """Walk to the first that is not done."""
        return all(job["state"] == _PROCESSED for _, job in self._all())

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Walk."""
        yield from ((job_id, job["state"] == _RESERVED) for job_id, job in self._all() if job["state"] != _PROCESSED)

    def _set_state(self, claim: Claim, state: int) -> None:
        self.client.put(self.job_key(claim.job_id), {"state": state}, policy=dict(UPDATE_ONLY))

    def _all(self) -> Iterator[tuple[int, Any]]:
        return self.held(range(1, int(self.read_store()["last_id"]) + 1))


STORE = AerospikeFcfs
