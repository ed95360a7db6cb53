"""A worker whose clock is off: its own idea of now, not the machine's."""

from __future__ import annotations

from pydantic import Field

from stallbench.faults.fault import FaultOptions
from stallbench.faults.work import WorkFault
from stallbench.injection.job_faults import JobFault
from stallbench.scenario.duration import Duration


class ClockSkewOptions(FaultOptions):
    """Options of `ClockSkew`."""

    ahead_s: Duration = Field(default=0.0, alias="ahead", ge=0, le=86_400, description="how much too early it thinks it is later")
    behind_s: Duration = Field(default=0.0, alias="behind", ge=0, le=86_400, description="how much it lags")


class ClockSkew(WorkFault[ClockSkewOptions]):
    """A queue that compares times of different workers' clocks takes a fresh reservation for an expired one, or the reverse.

    Queues that ask the server for the time do not notice. What the bench records is by the machine's clock all the same.
    """

    kind = "clock_skew"
    summary = "the clock by which a worker reserves, and sees reservations expire, is ahead or behind"
    source = "hosts whose NTP has stopped, restored snapshots of machines; Kleppmann, 'How to do distributed locking' (2016)"
    options_type = ClockSkewOptions

    def job_fault(self) -> JobFault:
        """Be off."""
        return JobFault(on=self.on, clock_offset_s=self.options.ahead_s - self.options.behind_s)
