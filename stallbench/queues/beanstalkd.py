"""Beanstalkd: a queue server. A reserved job belongs to a connection until the connection ends or the reservation expires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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

    A server without a binlog loses everything when it ends, and assigns the same ids again. So a job's id here is the server's id in the last ten
    digits, preceded by six digits derived from the server's instance id.
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
        """Select the tube on ``connection``. Raises the driver's errors."""
        import greenstalk

        super().__init__(connection, options)
        if options.tube != greenstalk.DEFAULT_TUBE:
            connection.use(options.tube)
            connection.watch(options.tube)
            connection.ignore(greenstalk.DEFAULT_TUBE)
        self._first_id = int(str(connection.stats()["id"]), 16) % _RUNS * _IDS_OF_A_RUN

    def install(self) -> None:
        """Do nothing: a tube exists from its first use."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Put the jobs one by one, because there are no transactions; the answers are pipelined."""
        return [self._first_id + job_id for job_id in self.connection.put_all([job.payload for job in jobs], self.options.ttr_s)]

    def claim(self) -> Sequence[Claim]:
        """Reserve one job. The server does not report the number of attempts."""
        import greenstalk

        try:
            job = self.connection.reserve(timeout=0)
        except (greenstalk.TimedOutError, greenstalk.DeadlineSoonError):
            # The second is the same, with a warning: a reservation of this connection is about to expire.
            return []
        return [Claim(job_id=self._first_id + job.id, attempt=None, payload=job.body, handle=job)]

    def complete(self, claim: Claim) -> None:
        """Delete the job; raises `greenstalk.NotFoundError` if its reservation has expired and another worker has it or has deleted it."""
        self.connection.delete(claim.handle)

    def fail(self, claim: Claim, error: str) -> None:
        """Make the job ready again at once; raises `greenstalk.NotFoundError` as `complete` does."""
        self.connection.release(claim.handle)

    def recover(self, error: Exception) -> bool:
        """Continue after an error of the server; not after an answer that cannot be parsed, and not when the connection is lost."""
        import greenstalk

        return isinstance(error, greenstalk.BeanstalkdError)

    def backlog(self) -> Backlog:
        """Ask for the count of ready jobs and for the age of the next one, which the server gives in whole seconds since its enqueueing."""
        depth = int(self._stats_of_tube()["current-jobs-ready"])
        return Backlog(depth=depth, oldest_job_s=self._age_of_next_s() if depth else None)

    def is_drained(self) -> bool:
        """Whether the tube is empty."""
        return self._count() == 0

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Query each id that the server can have assigned, from the last one down, until as many jobs are found as it reports.

        The protocol cannot list jobs, and the newest jobs are the likeliest to remain. Delayed and buried jobs count as queued.
        """
        left = self._count()
        if left == 0:
            return
        # Every put consumes an id, also a failed one.
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
        """Return the age of the next job, or that of its successor if it completes meanwhile."""
        import greenstalk

        for _ in range(_PEEKS):
            try:
                return float(self.connection.stats_job(self.connection.peek_ready())["age"])
            except greenstalk.NotFoundError:
                continue
        return None
