"""Laravel's Redis queue: a list of waiting jobs, and a sorted set of reserved ones by the time at which their reservation expires.

Every step is atomic, because Redis executes one command at a time: no two workers get the same job, and none waits for another. The remaining
risk is a reservation that expires while its worker is still working.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from stallbench.queues.queue import Backlog, Claim, ClaimExpiredError, NewJob, OptionRole, Promise, Queue, QueueOptions
from stallbench.queues.redis_answers import observe_answers_of_redis
from stallbench.queues.redis_ids import RedisIds

_WAITING = "queues:default"
_RESERVED = f"{_WAITING}:reserved"
_DELAYED = f"{_WAITING}:delayed"
_JOBS_A_FETCH = 5000

_MOVE_DUE = """
-- What is due in the sorted set KEYS[1] goes to the end of the list KEYS[2]; ARGV[1]: now. Returns how many jobs were moved.
local due = redis.call('zrangebyscore', KEYS[1], '-inf', ARGV[1])
if #due > 0 then
    redis.call('zremrangebyrank', KEYS[1], 0, #due - 1)
    for first = 1, #due, 100 do
        redis.call('rpush', KEYS[2], unpack(due, first, math.min(first + 99, #due)))
    end
end
return #due
"""
_RESERVE_FIRST = """
-- The first job of the list KEYS[1] is counted one attempt more and put into the sorted set KEYS[2]; ARGV[1]: when that expires.
-- Returns the job as it is reserved, or false.
local job = redis.call('lpop', KEYS[1])
if not job then
    return false
end
local reserved = cjson.decode(job)
reserved['attempts'] = reserved['attempts'] + 1
reserved = cjson.encode(reserved)
redis.call('zadd', KEYS[2], ARGV[1], reserved)
return reserved
"""
_RELEASE = """
-- The reserved job ARGV[1] goes from the sorted set KEYS[1] to KEYS[2]; ARGV[2]: when it may be claimed again.
redis.call('zrem', KEYS[1], ARGV[1])
redis.call('zadd', KEYS[2], ARGV[2], ARGV[1])
return true
"""
_COUNT_READY = """
-- How many jobs are in the list KEYS[1] or due in one of the sorted sets KEYS[2] and KEYS[3], and the first of each; ARGV[1]: now.
local count, firsts = redis.call('llen', KEYS[1]), redis.call('lrange', KEYS[1], 0, 0)
for place = 2, 3 do
    count = count + redis.call('zcount', KEYS[place], '-inf', ARGV[1])
    local due = redis.call('zrangebyscore', KEYS[place], '-inf', ARGV[1], 'LIMIT', 0, 1)
    if due[1] then
        firsts[#firsts + 1] = due[1]
    end
end
return {count, firsts}
"""


class LaravelRedisOptions(QueueOptions):
    """Options of the reservation."""

    retry_after_s: Annotated[int, OptionRole.EXPIRY] = Field(
        default=90, ge=1, alias="retry_after", description="seconds after which a reservation has expired"
    )


class StoredJob(NamedTuple):
    """A job with an id."""

    job_id: int
    payload: str
    at_s: float
    """When it was enqueued, in seconds since 1970."""


class _Reservation(NamedTuple):
    """What a worker needs to release its job."""

    member: bytes
    """The job as it is in the sorted set."""
    expires_at_s: int


class LaravelRedis(Queue[LaravelRedisOptions]):
    """The scripts do what Laravel's do, in the same number of calls. Times are whole seconds by the clock of the process, as Laravel's are.

    Laravel's job ids are random text; these are numbers.
    """

    kind = "laravel_redis"
    summary = (
        "pops the first job of a list into a sorted set of reservations, in one script, after it has moved expired ones back"
    )
    source = "Laravel 5.5's RedisQueue and LuaScripts, in our own words"
    engines = frozenset({"redis"})
    options_type = LaravelRedisOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    tables = (_WAITING, _RESERVED, _DELAYED)
    indexes = ()
    claims_survive_connection = True
    puts_off_failed = False

    def __init__(self, connection: Any, options: LaravelRedisOptions) -> None:
        """Register the scripts; each is sent to the server when the server does not know it."""
        super().__init__(connection, options)
        self._move_due = self.connection.register_script(_MOVE_DUE)
        self._reserve_first = self.connection.register_script(_RESERVE_FIRST)
        self._release = self.connection.register_script(_RELEASE)
        self._count_ready = self.connection.register_script(_COUNT_READY)
        self._ids = RedisIds(self.connection, _WAITING)

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Observe the connection."""
        observe_answers_of_redis(self.connection, call)

    def install(self) -> None:
        """Start ids at 1; lists and sorted sets are created with their first member."""
        self._ids.install()

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Append the jobs to the list, by one command."""
        ids = self._ids.take(len(jobs))
        at_s = self.clock()
        self.push([StoredJob(job_id, job.payload, at_s) for job_id, job in zip(ids, jobs, strict=True)])
        return ids

    def push(self, jobs: Sequence[StoredJob]) -> None:
        """Append jobs that have their ids to the list, by one command."""
        self.connection.rpush(
            _WAITING,
            *(
                # A script's numbers are cut to 14 digits when they are written, which an id may have more of: it is text.
                json.dumps({"id": str(job.job_id), "attempts": 0, "data": job.payload, "pushedAt": f"{job.at_s:.4f}"})
                for job in jobs
            ),
        )

    def count_waiting(self) -> int:
        """Count what is in the list."""
        return int(self.connection.llen(_WAITING))

    def claim(self) -> Sequence[Claim]:
        """Move back what is due, then reserve the first job, as Laravel does."""
        at_s = self._now_s()
        self._move_due([_DELAYED, _WAITING], [at_s])
        self._move_due([_RESERVED, _WAITING], [at_s])
        expires_at_s = at_s + self.options.retry_after_s
        member = self._reserve_first([_WAITING, _RESERVED], [expires_at_s])
        if member is None:
            return []
        job = json.loads(member)
        return [
            Claim(
                job_id=int(job["id"]),
                attempt=int(job["attempts"]),
                payload=job["data"],
                handle=_Reservation(member, expires_at_s),
            )
        ]

    def complete(self, claim: Claim) -> None:
        """Remove the reservation.

        An expired reservation may be gone, and another worker may have the job. Laravel ignores this; here it raises `ClaimExpiredError`,
        because a job recorded as completed must not be re-executed. A reservation that is gone before it expired was lost by the server, which Laravel
        ignores too.
        """
        reservation: _Reservation = claim.handle
        removed = self.connection.zrem(_RESERVED, reservation.member)
        if not removed and self._now_s() >= reservation.expires_at_s:
            raise ClaimExpiredError(claim.job_id)

    def fail(self, claim: Claim, error: str) -> None:
        """Make the job available again at once; the next claim moves it to the end of the list."""
        reservation: _Reservation = claim.handle
        self._release([_RESERVED, _DELAYED], [reservation.member, self._now_s()])

    def recover(self, error: Exception) -> bool:
        """Continue after an error of the server; a broken connection is replaced by the caller."""
        from redis import ResponseError  # here: to list the queues must not take the tenth of a second of importing it

        return isinstance(error, ResponseError)

    def backlog(self) -> Backlog:
        """Count the waiting and the due jobs. The oldest is the first of the list or of a sorted set, except for jobs moved to the end of the list."""
        count, firsts = self._count_ready([_WAITING, _RESERVED, _DELAYED], [self._now_s()])
        pushed_at_s = min((float(json.loads(first)["pushedAt"]) for first in firsts), default=None)
        return Backlog(depth=int(count), oldest_job_s=None if pushed_at_s is None else max(0.0, self.clock() - pushed_at_s))

    def is_drained(self) -> bool:
        """Whether the list and both sorted sets are empty."""
        return not (self.connection.llen(_WAITING) or self.connection.zcard(_RESERVED) or self.connection.zcard(_DELAYED))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the list and both sorted sets in batches of a thousand; a job is claimed if its reservation has not expired."""
        at_s = self._now_s()
        for begin in range(0, int(self.connection.llen(_WAITING)), _JOBS_A_FETCH):
            for member in self.connection.lrange(_WAITING, begin, begin + _JOBS_A_FETCH - 1):
                yield int(json.loads(member)["id"]), False
        for place in (_RESERVED, _DELAYED):
            for begin in range(0, int(self.connection.zcard(place)), _JOBS_A_FETCH):
                for member, due_at_s in self.connection.zrange(place, begin, begin + _JOBS_A_FETCH - 1, withscores=True):
                    yield int(json.loads(member)["id"]), place == _RESERVED and due_at_s > at_s

    def _now_s(self) -> int:
        """Return the time by the clock of this process, in whole seconds since 1970."""
        return int(self.clock())
