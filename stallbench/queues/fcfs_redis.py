"""First come, first served on Redis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stallbench.queues.fcfs import FcfsOptions, FcfsStore
from stallbench.queues.queue import Backlog, Claim, NewJob
from stallbench.queues.redis_store import APPEND, RedisStore, age_s, as_claim, paired

_FIND_FIRST = """
-- Walks through the list KEYS[1] to the first id that is not in the hash KEYS[2]; returns its job in the hash KEYS[3], or false.
for begin = 0, redis.call('llen', KEYS[1]) - 1, 1000 do
    for _, id in ipairs(redis.call('lrange', KEYS[1], begin, begin + 999)) do
        if redis.call('hexists', KEYS[2], id) == 0 then
            return redis.call('hget', KEYS[3], id)
        end
    end
end
return false
"""


class RedisFcfs(RedisStore, FcfsStore):
    """A list of all ids that were ever assigned, and a hash of those that are reserved or done."""

    def __init__(self, connection: Any, options: FcfsOptions) -> None:
        """Register the scripts; each is sent to the server when the server does not know it."""
        super().__init__(connection, "fcfs")
        self._order, self._reserved = "fcfs_order", "fcfs_reserved"
        self._append = self.connection.register_script(APPEND)
        self._find_first = self.connection.register_script(_FIND_FIRST)

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Append them."""
        ids, written = self.write(jobs)
        self._append([self._order, self.jobs], [2**53, *paired(ids, written)])
        return ids

    def find_first_unprocessed(self) -> Claim | None:
        """Let the server walk, as it does for a query without an index."""
        return as_claim(self._find_first([self._order, self._reserved, self.jobs]))

    def reserve(self, claim: Claim) -> None:
        """Mark it."""
        self.connection.hset(self._reserved, str(claim.job_id), "1")

    def complete(self, claim: Claim) -> None:
        """Remove its content; its id stays in the list, and marked."""
        self.connection.hdel(self.jobs, str(claim.job_id))

    def release(self, claim: Claim) -> None:
        """Remove the mark; the id keeps its place in the list."""
        self.connection.hdel(self._reserved, str(claim.job_id))

    def backlog(self) -> Backlog:
        """Count by the lengths of list and hash, and walk to the oldest."""
        depth = self.connection.llen(self._order) - self.connection.hlen(self._reserved)
        return Backlog(depth=max(0, depth), oldest_job_s=age_s(self._find_first([self._order, self._reserved, self.jobs])))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read every id that was ever assigned."""
        order = self.connection.lrange(self._order, 0, -1)
        reserved = set(self.connection.hkeys(self._reserved))
        for job_id, _ in self.held(order):
            yield int(job_id), job_id in reserved


STORE = RedisFcfs
