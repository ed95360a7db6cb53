"""Adds many jobs to the queue's table that its workers must not claim: jobs of another queue, failed jobs, or jobs that are due later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import Field

from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions, FaultPlace
from stallbench.queues.other_jobs import HasOtherJobs
from stallbench.queues.queue_client import opened_queue
from stallbench.records.injections import Evidence


class OtherJobsOptions(FaultOptions):
    """Options of `OtherJobs`."""

    count: int = Field(default=500_000, ge=1, le=10_000_000, description="number of jobs")
    state: str = Field(
        default="ready", description="ready jobs of another queue, failed jobs, or jobs that are due in the future"
    )


class OtherJobs(Fault[OtherJobsOptions]):
    """Most jobs in the table are not for the queue's workers."""

    kind = "other_jobs"
    meanwhile = "the table had many jobs of other queues"
    summary = "adds many jobs to the queue's table that its workers must not claim, and removes them at its end"
    source = "PgQueuer issue 667 (864 000 jobs), GoodJob issue 1790 (100 000) and pull request 1645 (70 000 due later), pg-boss issue 418"
    targets = ("primary",)
    engines = frozenset({"postgres"})
    options_type = OtherJobsOptions

    @classmethod
    def find_issue(cls, options: OtherJobsOptions, place: FaultPlace) -> tuple[str, str] | None:
        """Find an issue: the queue cannot have jobs in this state."""
        if not issubclass(place.queue, HasOtherJobs):
            return "kind", f' is "{cls.kind}", which "{place.queue.kind}" cannot have: its table has no jobs of other queues'
        if not place.queue.other_job_states:
            return "kind", f' is "{cls.kind}", which "{place.queue.kind}" cannot have: {place.queue.no_other_jobs}'
        if options.state not in place.queue.other_job_states:
            return "state", f' is "{options.state}"; expected one of {", ".join(place.queue.other_job_states)}'
        return None

    def inject(self) -> Evidence:
        """Add the jobs, and count them."""
        began_s = time.monotonic()
        with self._opened_queue() as queue:
            queue.add_other_jobs(self.options.count, self.options.state)
            found = queue.count_other_jobs()
        if found < self.options.count:
            raise NotCarriedOutError(f"{self.options.count} jobs were added to the table, but only {found} of them are in it")
        return {"jobs": found, "state": self.options.state, "took_s": round(time.monotonic() - began_s, 3)}

    def undo(self) -> Evidence:
        """Delete them; raises `NotCarriedOutError` if some are left, or if some were no longer there."""
        with self._opened_queue() as queue:
            before = queue.count_other_jobs()
            queue.remove_other_jobs()
            left = queue.count_other_jobs()
        if left:
            raise NotCarriedOutError(f"the jobs of {self.name} were deleted, but {left} are still in the table")
        if before < self.options.count:
            taken = self.options.count - before
            raise NotCarriedOutError(
                f"{taken} of the {self.options.count} jobs of {self.name} were no longer there: workers took them"
            )
        return {}

    @contextmanager
    def _opened_queue(self) -> Iterator[HasOtherJobs]:
        queue = self.context.queue
        with opened_queue(queue.kind, queue.options, self.context.cluster.server(self.on).direct, self.name) as opened:
            assert isinstance(opened, HasOtherJobs)
            yield opened
