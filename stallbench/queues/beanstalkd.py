"""Beanstalkd: a server that is nothing but a queue. A reserved job belongs to a connection, until it ends or the job's time runs out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import greenstalk
from pydantic import Field

from stallbench.queues.queue import Backlog, Claim, NewJob, Promise, Queue, QueueOptions

_IDS_OF_A_RUN = 10**10
_RUNS = 10**6
_IDS_AT_ONCE = 2000
_PEEKS = 5
_HELD = ("current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried")


class BeanstalkdOptions(QueueOptions):
    """What can be chosen about the tube and the reservation."""

    tube: str = Field(default="default", pattern=r"^[a-z][a-z0-9_-]{0,62}$", description="name of the queue")
    ttr_s: int = Field(
        default=90, ge=1, alias="ttr", description="seconds after which a reservation has expired; Laravel's retry_after"
    )
    """It does not declare the role of an expiry: time alone does not reliably end a claim. Beanstalkd 1.12 misses about half of the
    deadlines that pass while the connection is idle. The job then stays reserved until the connection reserves another or ends."""


class Beanstalkd(Queue[BeanstalkdOptions]):
    """Put, reserve, delete, release.

    A server without a binlog forgets everything when it ends, and gives the same ids anew: a job's id is the server's own in the last ten
    digits, and before them six that are drawn from what the server calls its own run.
    """

    kind = "beanstalkd"
    summary = "asks the server for the first ready job, which belongs to the connection from then on"
    source = "Beanstalkd 1.12's protocol.txt, as Laravel 5.5's BeanstalkdQueue uses it"
    engines = frozenset({"beanstalkd"})
    options_type = BeanstalkdOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    tables = ("default",)
    indexes = ()
    puts_off_failed = False

    def __init__(self, connection: Any, options: BeanstalkdOptions) -> None:
        """Turn ``connection`` to the tube; raises the driver's errors."""
        super().__init__(connection, options)
        if options.tube != greenstalk.DEFAULT_TUBE:
            connection.use(options.tube)
            connection.watch(options.tube)
            connection.ignore(greenstalk.DEFAULT_TUBE)
        self._first_id = int(str(connection.stats()["id"]), 16) % _RUNS * _IDS_OF_A_RUN

    def install(self) -> None:
        """Do nothing: a tube is there from its first mention on."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Put the jobs, each for itself, for there are no transactions; several do not wait for each other's answers."""
        return [self._first_id + job_id for job_id in self.connection.put_all([job.payload for job in jobs], self.options.ttr_s)]

    def claim(self, limit: int = 1) -> Sequence[Claim]:
        """Reserve one job, whatever ``limit`` is. The server does not say how often that has happened to it."""
        try:
            job = self.connection.reserve(timeout=0)
        except (greenstalk.TimedOutError, greenstalk.DeadlineSoonError):
            # The second is the same, with a reminder: this connection has a job whose time is about to run out.
            return []
        return [Claim(job_id=self._first_id + job.id, attempt=None, payload=job.body, handle=job)]

    def complete(self, claim: Claim) -> None:
        """Delete the job; raises `greenstalk.NotFoundError` if its time has run out and somebody else has it or has deleted it."""
        self.connection.delete(claim.handle)

    def fail(self, claim: Claim, error: str) -> None:
        """Make the job ready again at once; raises `greenstalk.NotFoundError` as `complete` does."""
        self.connection.release(claim.handle)

    def recover(self, error: Exception) -> bool:
        """Go on after what the server refused; not after an answer that is not understood, and not when the connection is lost."""
        return isinstance(error, greenstalk.BeanstalkdError)

    def backlog(self) -> Backlog:
        """Ask for the count of ready jobs and for the age of the next one, which the server tells in whole seconds since its enqueueing."""
        depth = int(self._stats_of_tube()["current-jobs-ready"])
        return Backlog(depth=depth, oldest_job_s=self._age_of_next_s() if depth else None)

    def is_drained(self) -> bool:
        """Whether the tube holds nothing."""
        return self._count() == 0

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Ask for each id that the server can have given, from the last one down, until as many jobs are found as it says it holds.

        It lists no jobs, but the last ones are most likely the ones that are left. Delayed and buried jobs count as queued.
        """
        left = self._count()
        if left == 0:
            return
        # Every put takes an id, also one that comes to nothing.
        for end in range(int(self.connection.stats()["cmd-put"]), 0, -_IDS_AT_ONCE):
            for stats in self.connection.stats_of(range(end, max(0, end - _IDS_AT_ONCE), -1)):
                if stats["tube"] == self.options.tube:
                    yield self._first_id + stats["id"], stats["state"] == "reserved"
                    left -= 1
            if left <= 0:
                return

    def _count(self) -> int:
        stats = self._stats_of_tube()
        return sum(int(stats[held]) for held in _HELD)

    def _stats_of_tube(self) -> dict[str, Any]:
        stats: dict[str, Any] = self.connection.stats_tube(self.options.tube)
        return stats

    def _age_of_next_s(self) -> float | None:
        """Return the age of the next job; another one's if it is done before it could be asked for its age."""
        for _ in range(_PEEKS):
            try:
                return float(self.connection.stats_job(self.connection.peek_ready())["age"])
            except greenstalk.NotFoundError:
                continue
        return None
