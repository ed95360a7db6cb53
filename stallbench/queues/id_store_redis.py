"""The ID store on Redis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stallbench.queues.id_store import IdListStore, IdStoreOptions, refuse
from stallbench.queues.queue import Backlog, Claim, NewJob
from stallbench.queues.redis_store import APPEND, RedisStore, age_s, as_claim, paired


class RedisIdList(RedisStore, IdListStore):
    """A list, and the record limit that Redis does not have."""

    def __init__(self, connection: Any, options: IdStoreOptions) -> None:
        """Make the script known."""
        super().__init__(connection, "id_store")
        self._options = options
        self._list = "id_store"
        self._append = self.connection.register_script(APPEND)

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Append the ids, unless the record would become too big."""
        ids, written = self.write(jobs)
        self._append_or_refuse(ids, written)
        return ids

    def pop(self) -> int | None:
        """LPOP."""
        job_id: Any = self.connection.lpop(self._list)
        return None if job_id is None else int(job_id)

    def fetch(self, job_id: int) -> Claim | None:
        """HGET."""
        return as_claim(self.connection.hget(self.jobs, str(job_id)))

    def complete(self, claim: Claim) -> None:
        """HDEL."""
        self.connection.hdel(self.jobs, str(claim.job_id))

    def release(self, claim: Claim) -> None:
        """Append the id once more; a record that is full by now does not take it back either, and raises `RefusedError`."""
        for field, job in self.held([str(claim.job_id)]):
            self._append_or_refuse([field], [job])

    def backlog(self) -> Backlog:
        """Ask for the list's length and its first job."""
        first = self.connection.lindex(self._list, 0)
        job = None if first is None else self.connection.hget(self.jobs, first)
        return Backlog(depth=self.connection.llen(self._list), oldest_job_s=age_s(job))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Go through the hash; what is not in the list is reserved."""
        queued = set(self.connection.lrange(self._list, 0, -1))
        for job_id in self.connection.hkeys(self.jobs):
            yield int(job_id), job_id not in queued

    def _append_or_refuse(self, ids: Sequence[Any], written: Sequence[Any]) -> None:
        length = self._append([self._list, self.jobs], [self._options.most_ids, *paired(ids, written)])
        if length is not None:
            raise refuse(int(length), len(ids), self._options)


STORE = RedisIdList
