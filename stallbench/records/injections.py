"""The record of an injection in ``run.json``: a fault, a longrunner or a maintenance process, from its plan to its end."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

InjectionCategory = Literal["fault", "longrunner", "maintenance"]
Evidence = dict[str, Any]
"""What showed that an injection was active or gone: JSON values by name. The names depend on its kind, and the report shows them as they are.

Names that other parts of the bench read are defined here."""
KILLED = "killed"
PAUSED = "paused"
"""Of a fault that kills or pauses processes: their names."""
JOBS = "jobs"
"""The jobs that these processes had, in the same order."""
AT_ONCE = "at_once"
RATE = "rate"
"""Of a fault that adds load: jobs at its start, and jobs per second."""
ENDED_BY_DEADLOCK = "ended_by_deadlock"
"""How many of the fault's own statements the server ended to break a deadlock."""
LOCKED_JOBS = "locked_jobs"
"""How many jobs the fault locked at a time, at most: a claim with SKIP LOCKED passes them over."""


class InjectionLogEntry(BaseModel):
    """Something that an injection did or met, and when."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    t_ns: int
    what: str


class InjectionRecord(BaseModel):
    """One injection of a run. Times in ``_ns`` are of the bench's wall clock, and none if the injection did not reach that point."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="unique in the run: the kind and a number")
    category: InjectionCategory
    kind: str
    on: str = Field(description="the server, link or process that it acts on, as the scenario names it")
    phase: str | None = Field(default=None, description="none: the whole run")
    options: dict[str, Any] = {}
    planned_start_s: float | None = Field(default=None, description="seconds after the planned start of the first phase")
    planned_duration_s: float | None = Field(default=None, description="none: to the end of its phase, or of the run")
    longest_job_s: float | None = Field(default=None, description="of a fault that makes jobs longer: how long they take")
    may_be_ended: bool = Field(default=False, description="whether the servers may end it early, as a mitigation does")
    start_ns: int | None = Field(default=None, description="when the bench began to inject it")
    verified_ns: int | None = Field(default=None, description="when it was verified to be active")
    end_ns: int | None = Field(default=None, description="when the bench began to end it")
    verified_gone_ns: int | None = Field(default=None, description="when it was verified to be gone")
    evidence: Evidence = Field(default={}, description="what showed that it was active, and that it was gone")
    active_to_end: bool | None = Field(
        default=None, description="whether it was still active when it was ended; none if it was not ended as planned"
    )
    why_ended: str = Field(default="", description="why it was not active to its end, or could not be undone")
    actions: tuple[InjectionLogEntry, ...] = Field(default=(), description="what a maintenance process did")
    errors: tuple[InjectionLogEntry, ...] = Field(default=(), description="what failed in it")
    iterations: int | None = Field(default=None, description="how often a maintenance process ran its task")
    busy_s: float | None = Field(default=None, description="how long all iterations took together")
