"""Beanstalkd as a queue: the server itself reserves, counts down the time to run, and gives a job back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import greenstalk
from pydantic import Field

from stallbench.queues.queue import Backlog, Claim, NewJob, Promise, Queue, QueueOptions

_IN_HAND = "reserved"


class BeanstalkdOptions(QueueOptions):
    """What can be chosen about the reservation."""

    ttr_s: int = Field(
        default=90, ge=1, alias="ttr", description="seconds to run: after them the server gives the job to another"
    )


class Beanstalkd(Queue[BeanstalkdOptions]):
    """``put``, ``reserve``, ``delete``."""

    kind = "beanstalkd"
    summary = "the server hands the job out and takes it back when its time to run is over"
    source = "Beanstalkd's protocol; the row Beanstalkd of the benchmark that 'Laravel queueing optimization' (2017) continues"
    engines = frozenset({"beanstalkd"})
    options_type = BeanstalkdOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    holds_by_time = True
    tables = ()
    indexes = ()
    connection: greenstalk.Client[str]

    def install(self) -> None:
        """Nothing needs to be made."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Put the jobs one after the other: the protocol has no call for several."""
        return [self.connection.put(job.payload, ttr=self.options.ttr_s) for job in jobs]

    def claim(self, limit: int = 1) -> Sequence[Claim]:
        """Reserve one job, whatever ``limit`` is, without waiting. The server counts attempts, but tells them only when asked."""
        try:
            job = self.connection.reserve(timeout=0)
        except greenstalk.TimedOutError:
            return []
        return [Claim(job_id=job.id, attempt=None, payload=job.body)]

    def complete(self, claim: Claim) -> None:
        """Delete the job; raises `greenstalk.NotFoundError` if its time to run was over."""
        self.connection.delete(claim.job_id)

    def fail(self, claim: Claim, error: str) -> None:
        """Give the job back at once."""
        self.connection.release(greenstalk.Job(id=claim.job_id, body=claim.payload))

    def recover(self, error: Exception) -> bool:
        """Go on after the server's own answers; not after a broken connection."""
        return isinstance(error, greenstalk.Error)

    def backlog(self) -> Backlog:
        """Ask the server for what is ready."""
        depth = int(self.connection.stats_tube("default")["current-jobs-ready"])
        try:
            oldest = self.connection.peek_ready()
            age_s = float(self.connection.stats_job(oldest.id)["age"])
        except greenstalk.NotFoundError:
            return Backlog(depth=depth, oldest_job_s=None)
        return Backlog(depth=depth, oldest_job_s=age_s)

    def is_drained(self) -> bool:
        """Whether the server holds no job at all."""
        return self._held() == 0

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Ask for each id that the server has given so far: it lists no jobs."""
        if self._held() == 0:
            return
        for job_id in range(1, int(self.connection.stats()["total-jobs"]) + 1):
            try:
                state = self.connection.stats_job(job_id)["state"]
            except greenstalk.NotFoundError:
                continue
            yield job_id, state == _IN_HAND

    def _held(self) -> int:
        stats = self.connection.stats()
        return (
            stats["current-jobs-ready"]
            + stats["current-jobs-reserved"]
            + stats["current-jobs-delayed"]
            + stats["current-jobs-buried"]
        )
