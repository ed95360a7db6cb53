"""Laravel's Redis queue: a list of jobs, and a sorted set of reserved ones by when their reservation expires."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import redis
from pydantic import Field

from stallbench.queues.queue import Backlog, Claim, NewJob, Promise, Queue, QueueOptions

_WAITING, _RESERVED, _LAST_ID = "queues:default", "queues:default:reserved", "queues:default:last-id"
_AT_ONCE = 1000

# KEYS: waiting, reserved. ARGV: now, expiry of a reservation made now, how many expired ones are moved at once.
_CLAIM = """
local expired = redis.call('zrangebyscore', KEYS[2], '-inf', ARGV[1], 'limit', 0, ARGV[3])
for _, job in ipairs(expired) do
  redis.call('zrem', KEYS[2], job)
  redis.call('rpush', KEYS[1], job)
end
local job = redis.call('lpop', KEYS[1])
if not job then
  return false
end
local reserved = cjson.decode(job)
reserved['attempts'] = reserved['attempts'] + 1
reserved = cjson.encode(reserved)
redis.call('zadd', KEYS[2], ARGV[2], reserved)
return reserved
"""


class LaravelRedisOptions(QueueOptions):
    """What can be chosen about the reservation."""

    retry_after_s: int = Field(default=90, ge=1, alias="retry_after", description="seconds after which a reservation has expired")


class LaravelRedis(Queue[LaravelRedisOptions]):
    """A claim moves the head of the list into the sorted set, in one script; a completion takes it out."""

    kind = "laravel_redis"
    summary = "moves the first job of a list into a sorted set by a Lua script, and takes it out when the work is done"
    source = "Laravel's RedisQueue; the row Redis of the benchmark that 'Laravel queueing optimization' (2017) continues"
    engines = frozenset({"redis"})
    options_type = LaravelRedisOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    holds_by_time = True
    tables = ()
    indexes = ()
    connection: redis.Redis

    def __init__(self, connection: Any, options: LaravelRedisOptions) -> None:
        """Serve ``connection``."""
        super().__init__(connection, options)
        self._claim = self.connection.register_script(_CLAIM)

    def install(self) -> None:
        """Nothing needs to be made."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Push the jobs in one call."""
        last = int(self.connection.incrby(_LAST_ID, len(jobs)))
        ids = range(last - len(jobs) + 1, last + 1)
        pushed_at_s = time.time()
        members = [
            json.dumps({"id": job_id, "attempts": 0, "pushed_at": pushed_at_s, "payload": job.payload})
            for job_id, job in zip(ids, jobs, strict=True)
        ]
        self.connection.rpush(_WAITING, *members)
        return ids

    def claim(self, limit: int = 1) -> Sequence[Claim]:
        """Reserve the first job, whatever ``limit`` is; expired reservations go back to the end of the list first."""
        now_s = time.time()
        member = self._claim(keys=[_WAITING, _RESERVED], args=[now_s, now_s + self.options.retry_after_s, _AT_ONCE])
        if member is None:
            return []
        job = json.loads(member)
        return [Claim(job_id=int(job["id"]), attempt=int(job["attempts"]), payload=job["payload"], handle=member)]

    def complete(self, claim: Claim) -> None:
        """Take the job out of the sorted set. One whose reservation has expired is not there any more, which Laravel does not notice."""
        self.connection.zrem(_RESERVED, claim.handle)

    def fail(self, claim: Claim, error: str) -> None:
        """Make the job available again at once."""
        with self.connection.pipeline() as calls:
            calls.zrem(_RESERVED, claim.handle)
            calls.rpush(_WAITING, claim.handle)
            calls.execute()

    def backlog(self) -> Backlog:
        """Count the list; what has expired counts when somebody has moved it."""
        head = self.connection.lindex(_WAITING, 0)
        oldest_s = max(0.0, time.time() - float(json.loads(head)["pushed_at"])) if head else None
        return Backlog(depth=int(self.connection.llen(_WAITING)), oldest_job_s=oldest_s)

    def is_drained(self) -> bool:
        """Whether both are empty."""
        return self.connection.llen(_WAITING) == 0 and self.connection.zcard(_RESERVED) == 0

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Go through the list, then the sorted set, some at a time."""
        for begin in range(0, int(self.connection.llen(_WAITING)), _AT_ONCE):
            for member in self.connection.lrange(_WAITING, begin, begin + _AT_ONCE - 1):
                yield int(json.loads(member)["id"]), False
        now_s = time.time()
        for member, expires_s in self.connection.zscan_iter(_RESERVED, count=_AT_ONCE):
            yield int(json.loads(member)["id"]), float(expires_s) > now_s
