"""Draws what a job of Postgrestue waits for before it can be run: at most one condition, according to the shares in the options."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stallbench.queues.postgrestue_options import PostgrestueOptions
from stallbench.queues.postgrestue_senders import Call, array
from stallbench.queues.queue import NewJob, Precondition


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A job with its id and what it waits for."""

    job_id: int
    arguments: str
    schedule_time: str | None = None
    blocking_job_id: int | None = None
    queue: str | None = None

    @property
    def waits(self) -> bool:
        """Whether it has a precondition."""
        return self.precondition is not None

    @property
    def precondition(self) -> Precondition | None:
        """What it waits for."""
        if self.queue is not None:
            return Precondition(kind="fifo", subject=self.queue)
        if self.blocking_job_id is not None:
            return Precondition(kind="after", subject=str(self.blocking_job_id))
        if self.schedule_time is not None:
            since_1970 = datetime.fromisoformat(self.schedule_time) - datetime.fromtimestamp(0, UTC)
            return Precondition(kind="due", subject=str(since_1970 // timedelta(microseconds=1) * 1000))
        return None


class Describer:
    """Draws the preconditions of jobs."""

    def __init__(self, options: PostgrestueOptions, source: random.Random) -> None:
        """Start; the first job is not blocked."""
        self._options = options
        self._random = source
        self._last_id: int | None = None
        self.draws = bool(options.fifo_share or options.scheduled_share or options.blocked_share)
        """Whether any job has a precondition."""

    def describe(self, jobs: Sequence[NewJob], ids: Sequence[int]) -> list[Described]:
        """Give each of ``jobs`` its id and what it waits for."""
        if not self.draws:
            self._last_id = ids[-1] if ids else self._last_id
            return [Described(job_id=job_id, arguments=job.payload) for job, job_id in zip(jobs, ids, strict=True)]
        return [self._describe(job, job_id) for job, job_id in zip(jobs, ids, strict=True)]

    def _describe(self, job: NewJob, job_id: int) -> Described:
        options, blocking_job_id = self._options, self._last_id
        self._last_id = job_id
        drawn = self._random.random()
        if drawn < options.fifo_share:
            queue = f"fifo-{self._random.randrange(options.fifo_queues)}"
            return Described(job_id=job_id, arguments=job.payload, queue=queue)
        if drawn < options.fifo_share + options.scheduled_share:
            due = datetime.now(UTC) + timedelta(seconds=options.schedule_s * self._random.uniform(0.5, 1.5))
            return Described(job_id=job_id, arguments=job.payload, schedule_time=due.isoformat())
        if drawn < options.fifo_share + options.scheduled_share + options.blocked_share:
            return Described(job_id=job_id, arguments=job.payload, blocking_job_id=blocking_job_id)
        return Described(job_id=job_id, arguments=job.payload)


def calls_to_enqueue(jobs: Sequence[Described], options: PostgrestueOptions) -> list[Call]:
    """Return the statements that insert jobs and their preconditions, in one transaction."""
    columns = zip(*((job.job_id, job.schedule_time, job.blocking_job_id, job.queue, job.arguments) for job in jobs), strict=True)
    described = (options.owner, options.job_kind, options.max_attempts, str(options.time_limit_s))
    calls: list[Call] = [("begin", ()), ("insert_job", (*described, *map(array, columns)))]
    if free := [job.job_id for job in jobs if not job.waits]:
        calls.append(("enqueue", (array(free),)))
    return [*calls, *calls_to_make_wait(jobs), ("commit", ())]


def calls_to_make_wait(jobs: Sequence[Described]) -> list[Call]:
    """Return the statements that insert the preconditions of jobs already described."""
    calls: list[Call] = []
    if scheduled := [(job.job_id, job.schedule_time) for job in jobs if job.schedule_time is not None]:
        calls.append(("enqueue_scheduled", tuple(map(array, zip(*scheduled, strict=True)))))
    if blocked := [(job.job_id, job.blocking_job_id) for job in jobs if job.blocking_job_id is not None]:
        calls.append(("enqueue_blocked", tuple(map(array, zip(*blocked, strict=True)))))
    if queued := [(job.job_id, job.queue) for job in jobs if job.queue is not None]:
        calls.append(("enqueue_fifo", tuple(map(array, zip(*queued, strict=True)))))
    return calls
