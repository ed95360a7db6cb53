"""A worker whose clock differs from the machine's."""

from __future__ import annotations

from pydantic import Field

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.faults.fault import FaultOptions, FaultPlace
from stallbench.faults.work import WorkFault
from stallbench.injection.job_faults import JobFault
from stallbench.scenario.duration import Duration


class ClockSkewOptions(FaultOptions):
    """Options of `ClockSkew`."""

    ahead_s: Duration = Field(default=0.0, alias="ahead", ge=0, le=86_400, description="how far the worker's clock is ahead")
    behind_s: Duration = Field(default=0.0, alias="behind", ge=0, le=86_400, description="how far the worker's clock is behind")


class ClockSkew(WorkFault[ClockSkewOptions]):
    """A queue that compares times of different workers' clocks treats a fresh reservation as expired, or an expired one as fresh.

    Queues that ask the server for the time are not affected. The bench records all times by the machine's clock.
    """

    kind = "clock_skew"
    summary = "the clock that a worker uses for reservations and their expiry is ahead or behind"
    source = "hosts whose NTP has stopped, restored snapshots of machines; Kleppmann, 'How to do distributed locking' (2016)"
    options_type = ClockSkewOptions

    @classmethod
    def find_issue(cls, options: ClockSkewOptions, place: FaultPlace) -> tuple[str, str] | None:
        """Find workers of a library, which do not take their clock from the bench."""
        if not place.queue.kind.startswith(LIBRARY_PREFIX):
            return None
        theirs = f"the workers of {place.queue.kind} use the machine's clock, which the bench does not change"
        return "kind", f' is "{cls.kind}", but {theirs}; leave it out, or set queue.kind to one of the bench\'s own queues'

    def job_fault(self) -> JobFault:
        """Shift the clock."""
        return JobFault(on=self.on, clock_offset_s=self.options.ahead_s - self.options.behind_s)
