"""A worker whose clock differs from the machine's."""

from __future__ import annotations

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.injection.faults.fault import FaultOptions, FaultPlace
from stallbench.injection.faults.work import WorkFault
from stallbench.injection.job_faults import JobFault
from stallbench.injection.worker_clocks import CLOCK_SKEW
from stallbench.queues.library_queue import LibraryQueue
from stallbench.records.injections import Evidence

_ASKS_THE_KERNEL = ("go",)
"""Languages whose programs do not ask the C library for the time."""


class ClockSkewOptions(FaultOptions):
    """Options of `ClockSkew`."""

    ahead_s: Duration = Field(default=0.0, alias="ahead", ge=0, le=86_400, description="how far the worker's clock is ahead")
    behind_s: Duration = Field(default=0.0, alias="behind", ge=0, le=86_400, description="how far the worker's clock is behind")


class ClockSkew(WorkFault[ClockSkewOptions]):
    """A queue that compares times of different workers' clocks treats a fresh reservation as expired, or an expired one as fresh.

    Queues that ask the server for the time are not affected. The bench records all times by the machine's clock. The workers of a library notice
    the change up to `NOTICED_AFTER_S` later, and their libraries only when they read the clock.
    """

    kind = CLOCK_SKEW
    meanwhile = "the clock of {on} was wrong"
    summary = "the clock that a worker uses for reservations and their expiry is ahead or behind"
    source = "hosts whose NTP has stopped, restored snapshots of machines; Kleppmann, 'How to do distributed locking' (2016)"
    may_end_claims = True
    options_type = ClockSkewOptions

    @classmethod
    def find_issue(cls, options: ClockSkewOptions, place: FaultPlace) -> tuple[str, str] | None:
        """Find clocks that would stay as they are, and workers of a library whose clock cannot be changed."""
        if options.ahead_s == options.behind_s:
            same = f" is {options.ahead_s:g} s, and so is behind: no clock would change; expected two different values"
            return "ahead", same
        if not issubclass(place.queue, LibraryQueue) or place.queue.library.language not in _ASKS_THE_KERNEL:
            return None
        theirs = f"the workers of {place.queue.kind} are programs in Go, which ask the kernel for the time, where the bench cannot change it"
        return "kind", f' is "{cls.kind}", but {theirs}; leave it out, or set queue.kind to another queue'

    def job_fault(self) -> JobFault:
        """Shift the clock."""
        return JobFault(on=self.on, clock_offset_s=self.options.ahead_s - self.options.behind_s)

    def inject(self) -> Evidence:
        """Write the job fault, and set the clocks of a library's workers."""
        evidence = super().inject()
        self.context.load.set_clocks(self.on)
        return evidence

    def undo(self) -> Evidence:
        """Remove the job fault, and set the clocks back."""
        evidence = super().undo()
        self.context.load.set_clocks(self.on)
        return evidence
