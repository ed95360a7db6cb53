"""Base of the article's stores on Redis: jobs in a hash, each a JSON document with id, payload and time of enqueueing.

An operation of Aerospike is a command of Redis here; the article's function in Lua is a script.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stallbench.queues.queue import Claim, NewJob
from stallbench.queues.redis_answers import observe_answers_of_redis
from stallbench.queues.redis_ids import RedisIds
from stallbench.queues.store_queue import JobStore

if TYPE_CHECKING:
    import redis

_JOBS_A_FETCH = 5000

Job = bytes | str
"""A job as stored in Redis. redis-py's types allow both; here it is always bytes."""

APPEND = """
-- Adds jobs (id, job, id, job, ..) to the hash KEYS[2] and their ids to the end of the list KEYS[1], of which ARGV[1] is the greatest length.
-- Returns the length that the list has, if that is too much, else false.
local length = redis.call('llen', KEYS[1])
if length + (#ARGV - 1) / 2 > tonumber(ARGV[1]) then
    return length
end
for place = 2, #ARGV, 2 do
    redis.call('hset', KEYS[2], ARGV[place], ARGV[place + 1])
    redis.call('rpush', KEYS[1], ARGV[place])
end
return false
"""


class RedisStore(JobStore):
    """The base of the three stores."""

    connection: redis.Redis

    def __init__(self, connection: Any, name: str) -> None:
        """Serve ``connection``; all keys begin with ``name``."""
        super().__init__(connection)
        self.jobs = f"{name}_jobs"
        self.ids = RedisIds(self.connection, name)

    def install(self) -> None:
        """Start ids at 1; everything else is created with the first job."""
        self.ids.install()

    def write(self, jobs: Sequence[NewJob]) -> tuple[Sequence[int], list[str]]:
        """Return an id for each of ``jobs``, and its stored form."""
        ids = self.ids.take(len(jobs))
        at_s = time.time()
        written = [
            json.dumps({"id": job_id, "payload": job.payload, "enqueued_at": at_s}) for job_id, job in zip(ids, jobs, strict=True)
        ]
        return ids, written

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Observe the connection."""
        observe_answers_of_redis(self.connection, call)

    def is_usable_after(self, error: Exception) -> bool:
        """Continue after an error of the server; a broken connection is replaced by the caller."""
        from redis import ResponseError  # here: to list the queues must not take the tenth of a second of importing it

        return isinstance(error, ResponseError)

    def is_drained(self) -> bool:
        """Whether the hash is empty."""
        return not self.connection.hlen(self.jobs)

    def held(self, fields: Sequence[Any]) -> Iterator[tuple[Any, Job]]:
        """Return those of ``fields`` that the hash of jobs has, with their jobs."""
        for begin in range(0, len(fields), _JOBS_A_FETCH):
            some = fields[begin : begin + _JOBS_A_FETCH]
            found = self.connection.hmget(self.jobs, some)
            yield from ((field, job) for field, job in zip(some, found, strict=True) if job is not None)


def paired(ids: Sequence[Any], written: Sequence[Any]) -> list[Any]:
    """Return each of ``ids`` followed by its stored form, as the append script expects."""
    return [value for pair in zip(ids, written, strict=True) for value in pair]


def as_claim(job: Job | None, handle: object = None) -> Claim | None:
    """Return the claim of a job; none if there is none."""
    if job is None:
        return None
    content = json.loads(job)
    return Claim(job_id=int(content["id"]), attempt=None, payload=content["payload"], handle=handle)


def age_s(job: Job | None) -> float | None:
    """Return how long ago a job was enqueued; none if there is none."""
    return None if job is None else max(0.0, time.time() - float(json.loads(job)["enqueued_at"]))
