"""Faults of the jobs themselves: jobs that kill their worker, fail, or take longer than expected.

Each of them is a job fault, which every worker reads before its next job; see `stallbench.injection.job_faults`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TypeVar

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines.error_kinds import ErrorKind
from stallbench.injection.faults.announced_kills import AnnouncedKills
from stallbench.injection.faults.combination import Combination
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.injection.job_faults import JobFault, end_job_fault, start_job_fault
from stallbench.records.injections import KILLED, Evidence

_NEEDS_WORKERS = Combination(place="jobs", on="workers", needs=frozenset({"server", "workers"}))
WorkOptionsT = TypeVar("WorkOptionsT", bound=FaultOptions)


class WorkFault(Fault[WorkOptionsT]):
    """A job fault, and the evidence that it has affected a worker."""

    targets = ("worker",)

    @abstractmethod
    def job_fault(self) -> JobFault:
        """Return the job fault."""

    def inject(self) -> Evidence:
        """Write the job fault where workers read it."""
        job_fault = self.job_fault()
        start_job_fault(self.context.job_faults, self.name, job_fault)
        return {"job_fault": job_fault.model_dump(mode="json", exclude_defaults=True)}

    def tick(self) -> None:
        """Record which workers it has affected."""
        self.context.load.workers_that_met(self.name)

    def why_inactive(self) -> str | None:
        """Check that it has affected at least one worker."""
        return None if self.context.load.workers_that_met(self.name) else "it affected no worker"

    def undo(self) -> Evidence:
        """Remove the job fault."""
        end_job_fault(self.context.job_faults, self.name)
        return {"met": sorted(self.context.load.workers_that_met(self.name))}


class PoisonJobsOptions(FaultOptions):
    """Options of `PoisonJobs`."""

    count: int = Field(default=1, ge=1, le=1000, description="how many of these jobs are enqueued")
    replace_after_s: Duration = Field(
        default=1.0, alias="replace_after", ge=0, le=3600, description="from a kill until a supervisor starts another worker"
    )


class PoisonJobs(WorkFault[PoisonJobsOptions]):
    """The job kills every worker that executes it, and the queue offers it to the next one. After the fault, it can be executed like any other."""

    kind = "poison_jobs"
    meanwhile = "jobs killed every worker that executed them"
    summary = "enqueues jobs that kill every worker that executes them, until the fault ends; a supervisor replaces the workers"
    source = "jobs that overflow the stack or exceed the memory limit; Amazon SQS's dead-letter queues and their maxReceiveCount"
    options_type = PoisonJobsOptions

    def job_fault(self) -> JobFault:
        """Kill the worker of a job with the mark of this fault."""
        return JobFault(on=self.on, mark=self.name, kills=True)

    def inject(self) -> Evidence:
        """Write the job fault, then enqueue the jobs."""
        self._kills = AnnouncedKills(self.context, self.name, self.on, self.options.replace_after_s)
        evidence = super().inject()
        producer = self.context.load.start_extra_producer(backlog=self.options.count, mark=self.name)
        self.context.load.end(producer)
        return {**evidence, KILLED: self._kills.killed}

    def tick(self) -> None:
        """Record which workers the jobs have killed, and start the replacements that are due."""
        super().tick()
        self._kills.tick()

    def undo(self) -> Evidence:
        """Remove the job fault, and replace every worker that it has killed."""
        evidence = super().undo()
        self._kills.end()
        return evidence


class FailingJobsOptions(FaultOptions):
    """Options of `FailingJobs`."""

    share: float = Field(default=1.0, gt=0, le=1, description="of the executions, drawn at random")


class FailingJobs(WorkFault[FailingJobsOptions]):
    """A dependency of the jobs, such as a payment provider, is down: each execution takes its usual time and fails, and the job is released."""

    kind = "failing_jobs"
    meanwhile = "executions of jobs failed"
    combination = replace(_NEEDS_WORKERS, options={"share": 0.3})
    summary = "executions fail, all or a share of them; the queue offers the jobs again according to its own policy"
    source = "'Timeouts, retries and backoff with jitter', Amazon Builders' Library; outages of third parties"
    explains_errors = frozenset({ErrorKind.VALUE_OUT_OF_RANGE})
    options_type = FailingJobsOptions

    def job_fault(self) -> JobFault:
        """Make executions fail."""
        return JobFault(on=self.on, share=self.options.share, fails=True)


class LongJobsOptions(FaultOptions):
    """Options of `LongJobs`."""

    takes_s: Duration = Field(default=30.0, alias="takes", gt=0, le=3600, description="how long such a job takes")
    share: float = Field(default=1.0, gt=0, le=1, description="of the executions, drawn at random")


class LongJobs(WorkFault[LongJobsOptions]):
    """A job that takes longer than its reservation is offered to another worker while the first still executes it."""

    kind = "long_jobs"
    meanwhile = "executions of jobs took longer"
    combination = replace(_NEEDS_WORKERS, options={"takes": "500ms", "share": 0.05})
    summary = "executions take longer than they should, all or a share of them"
    source = "Laravel's documentation of queues: retry_after and timeout; visibility timeouts of Amazon SQS"
    options_type = LongJobsOptions

    def job_fault(self) -> JobFault:
        """Make executions take longer."""
        return JobFault(on=self.on, share=self.options.share, takes_s=self.options.takes_s)

    @property
    def longest_job_s(self) -> float:
        """Return the option."""
        return self.options.takes_s
