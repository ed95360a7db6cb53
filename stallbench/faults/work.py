"""Jobs that are not as they should be: one kills its worker, some fail, some last longer than anybody thought.

Workers are told by a job_fault, which each looks for before its next job; see `stallbench.injection.job_faults`.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, TypeVar

from pydantic import Field

from stallbench.engines.error_kinds import ErrorKind
from stallbench.faults.fault import Fault, FaultOptions
from stallbench.injection.job_faults import JobFault, end_job_fault, forget_announcement, has_announced_death, start_job_fault
from stallbench.processes.process import Process
from stallbench.scenario.duration import Duration

_DYING_TAKES_S = 5.0
"""What one that has said that it dies may take until it is dead."""
_LOOK_EVERY_S = 0.005

WorkOptionsT = TypeVar("WorkOptionsT", bound=FaultOptions)


class WorkFault(Fault[WorkOptionsT]):
    """A job_fault of workers, and the proof that one of them has met it."""

    places = ("worker",)

    @abstractmethod
    def job_fault(self) -> JobFault:
        """Return what goes wrong."""

    def inject(self) -> dict[str, Any]:
        """Tell the workers."""
        job_fault = self.job_fault()
        start_job_fault(self.context.folder.job_faults, self.name, job_fault)
        return {"job_fault": job_fault.model_dump(mode="json", exclude_defaults=True)}

    def keep_up(self) -> None:
        """Hear who has met it."""
        self.context.load.who_met(self.name)

    def find_lapse(self) -> str | None:
        """Ask whether any worker has met it at all."""
        return None if self.context.load.who_met(self.name) else "no worker came upon it"

    def undo(self) -> dict[str, Any]:
        """Tell the workers that all is well again."""
        end_job_fault(self.context.folder.job_faults, self.name)
        return {"met": sorted(self.context.load.who_met(self.name))}


class PoisonJobsOptions(FaultOptions):
    """Options of `PoisonJobs`."""

    count: int = Field(default=1, ge=1, le=1000, description="how many such jobs are enqueued")
    replace_after_s: Duration = Field(
        default=1.0, alias="replace_after", ge=0, le=3600, description="until a supervisor starts another worker"
    )


class PoisonJobs(WorkFault[PoisonJobsOptions]):
    """Whoever works it dies of it, and it is given to the next. Once it is over, the same job can be worked like any other."""

    kind = "poison_jobs"
    summary = (
        "enqueues jobs that kill every worker that works them, until the worker's code is mended; a supervisor replaces the dead"
    )
    source = (
        "jobs that overflow the stack or run into the memory limit; Amazon SQS's dead-letter queues and their maxReceiveCount"
    )
    options_type = PoisonJobsOptions

    def job_fault(self) -> JobFault:
        """Kill who works one of them."""
        return JobFault(on=self.on, mark=self.name, kills=True)

    def inject(self) -> dict[str, Any]:
        """Tell the workers, then enqueue the jobs."""
        self._killed: list[str] = []
        self._to_replace: list[tuple[float, Process]] = []
        self._doomed: list[Process] = []
        self._arm_all()
        evidence = super().inject()
        producer = self.context.load.start_extra_producer(backlog=self.options.count, mark=self.name)
        self.context.load.end(producer)
        return {**evidence, "killed": self._killed}

    def keep_up(self) -> None:
        """Bury the dead, and replace those whose time has come."""
        super().keep_up()
        now_s = time.monotonic()
        for process in [process for process in self._doomed if process.poll() is not None]:
            if self._is_dying(process) and process.intended == "running":
                process.intended = "killed"
                forget_announcement(self.context.folder.job_faults, self.name, process.name)
                self._killed.append(process.name)
                self._to_replace.append((now_s + self.options.replace_after_s, process))
            self._spare(process)  # if it died of something else, which the run may have to be told
        self._arm_all()
        for item in [item for item in self._to_replace if item[0] <= now_s]:
            self._to_replace.remove(item)
            self.context.load.replace(item[1])

    def undo(self) -> dict[str, Any]:
        """Mend the worker's code, and replace everybody who has died."""
        evidence = super().undo()
        self._wait_for_the_dying()
        self.keep_up()
        for _, process in self._to_replace:
            self.context.load.replace(process)
        self._to_replace = []
        for process in list(self._doomed):
            self._spare(process)
        return evidence

    def _arm_all(self) -> None:
        """Let it be known of all who may die of it, also of those who have come since."""
        for process in self.context.load.named(self.on):
            if process not in self._doomed:
                self._doomed.append(process)
                process.may_be_killed_by.add(self.name)

    def _spare(self, process: Process) -> None:
        self._doomed.remove(process)
        process.may_be_killed_by.discard(self.name)

    def _is_dying(self, process: Process) -> bool:
        return has_announced_death(self.context.folder.job_faults, self.name, process.name)

    def _wait_for_the_dying(self) -> None:
        """Wait for those who saw the job_fault just before it was lifted: their deaths belong to the fault."""
        until_s = time.monotonic() + _DYING_TAKES_S
        while time.monotonic() < until_s and any(process.poll() is None and self._is_dying(process) for process in self._doomed):
            time.sleep(_LOOK_EVERY_S)


class FailingJobsOptions(FaultOptions):
    """Options of `FailingJobs`."""

    share: float = Field(default=1.0, gt=0, le=1, description="of the executions, drawn at random")


class FailingJobs(WorkFault[FailingJobsOptions]):
    """What the jobs need, a payment provider or a mail server, is down: each takes its time, then fails and is given back."""

    kind = "failing_jobs"
    summary = "executions fail, all or a share of them, and the queue offers the jobs again as its own policy says"
    source = "'Timeouts, retries and backoff with jitter', Amazon Builders' Library; outages of third parties"
    explains_errors = frozenset({ErrorKind.VALUE_OUT_OF_RANGE})
    options_type = FailingJobsOptions

    def job_fault(self) -> JobFault:
        """Fail."""
        return JobFault(on=self.on, share=self.options.share, fails=True)


class LongJobsOptions(FaultOptions):
    """Options of `LongJobs`."""

    takes_s: Duration = Field(default=30.0, alias="takes", gt=0, le=3600, description="how long such a job takes")
    share: float = Field(default=1.0, gt=0, le=1, description="of the executions, drawn at random")


class LongJobs(WorkFault[LongJobsOptions]):
    """A job that takes longer than its reservation is given to another worker while the first still works it."""

    kind = "long_jobs"
    summary = "executions take longer than they should, all or a share of them"
    source = "Laravel's documentation of queues: retry_after and timeout; visibility timeouts of Amazon SQS"
    options_type = LongJobsOptions

    def job_fault(self) -> JobFault:
        """Take long."""
        return JobFault(on=self.on, share=self.options.share, takes_s=self.options.takes_s)
