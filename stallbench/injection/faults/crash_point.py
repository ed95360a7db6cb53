"""A process is killed, or paused until its claim has expired, at a defined point between two operations or two statements."""

from __future__ import annotations

import signal
import time
from typing import Self

from pydantic import Field, model_validator

from stallbench.base.duration import Duration
from stallbench.base.section import issue
from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.announced_kills import AnnouncedKills
from stallbench.injection.faults.fault import Fault, FaultOptions, FaultPlace
from stallbench.injection.job_faults import (
    Crash,
    JobFault,
    end_job_fault,
    has_announced,
    read_announced_job,
    remove_announcement,
    start_job_fault,
)
from stallbench.processes.process import Process
from stallbench.queues.crash_points import CrashPoint
from stallbench.records.injections import JOBS, KILLED, PAUSED, Evidence
from stallbench.waiting import wait_until

_WITHOUT_CHOICE_NTH = 10
_AFTER_EXPIRY_S = 1.5
"""How long after the expiry of its claim a process is resumed. Some queues count whole seconds."""
_WITHOUT_EXPIRY_S = 3.0
_STOPPED_WITHIN_S = 5.0
"""How long a process may take from announcing that it stops until it has stopped."""
_POLL_S = 0.005


class CrashPointOptions(FaultOptions):
    """Options of `CrashAtPoint`."""

    at: CrashPoint = Field(strict=False, description="the point", examples=["after_claim"])
    action: Crash = Field(default="kill", description="SIGKILL, or a pause (SIGSTOP) until the claim has expired")
    every_nth: int | None = Field(
        default=None, ge=1, description="every n-th time that a process passes the point; 10 if no other trigger is given"
    )
    probability: float | None = Field(
        default=None, gt=0, le=1, description="instead of every_nth: at each passage with this probability"
    )
    in_turn: bool = Field(
        default=False,
        description="instead: the first process at its first passage, the second at its second, and so on; their replacements at the "
        "passages behind these, so that each pair of statements has its turn",
    )
    seed: int | None = Field(
        default=None, ge=0, le=2**31 - 1, description="seed of the passages that are drawn; default: one from the scenario's seed"
    )
    replace_after_s: Duration = Field(
        default=1.0, alias="replace_after", ge=0, le=3600, description="from a kill until another process takes its place"
    )
    pause_for_s: Duration | None = Field(
        default=None,
        alias="pause_for",
        gt=0,
        le=3600,
        description="length of a pause; default: 1.5 s longer than the queue's claims last, or 3 s if these do not expire",
    )

    @model_validator(mode="after")
    def _require_one_trigger(self) -> Self:
        given = [key for key in ("every_nth", "probability", "in_turn") if getattr(self, key)]
        if len(given) > 1:
            raise issue(f" is given beside {given[0]}; expected one of the two", key=given[1])
        return self


class CrashAtPoint(Fault[CrashPointOptions]):
    """The process sends itself the signal, so that nothing happens between the point and its end: nothing is flushed or cleaned up.

    A paused process is stopped by the kernel with all its threads, and its connections stay open.
    """

    kind = "crash_point"
    meanwhile = "{on} {were} stopped in the middle of an operation"
    summary = "kills workers, producers or the scheduler at a defined point, or pauses them there until their claims have expired"
    source = (
        "Alagappan et al., 'Correlated crash vulnerabilities' (2016); FoundationDB's and SQLite's crash tests; "
        "Kleppmann, 'How to do distributed locking' (2016)"
    )
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.LOCK_TIMEOUT})
    targets = ("worker", "producer", "scheduler")
    options_type = CrashPointOptions

    @classmethod
    def find_issue(cls, options: CrashPointOptions, place: FaultPlace) -> tuple[str, str] | None:
        """Find an issue: a point that the target does not pass."""
        role = options.at.role
        if place.on not in (role, f"{role}s") and not place.on.startswith(f"{role}-"):
            some = "scheduler" if role == "scheduler" else f"{role}s or one of them, like {role}-1"
            return "on", f' is "{place.on}", which does not pass {options.at}; expected {some}'
        if role == "producer" and place.by_locust:
            return "at", f' is "{options.at}", which Locust\'s users do not pass; it needs producers.kind = "open_loop"'
        if role == "worker" and (missing := place.queue.find_crash_point_issue(options.at)):
            return "at", missing
        if role == "worker" and options.in_turn and place.queue.worker_command() is not None:
            return "in_turn", (
                f" is true, which is for points inside of calls, but {place.queue.kind} has a worker of its own, "
                "which does not pass these; expected every_nth or probability"
            )
        return None

    def inject(self) -> Evidence:
        """Write the job fault where the processes read it."""
        options = self.options
        self._paused: dict[Process, float] = {}
        """When each process was found stopped (monotonic)."""
        self._were_paused: list[str] = []
        self._jobs_paused: list[int | None] = []
        self._kills = AnnouncedKills(self.context, self.name, self.on, options.replace_after_s) if self._does_kill else None
        running = [process.name for process in self.context.load.named(self.on)]
        if not running:
            raise NotCarriedOutError(f"{self.name}: there is no {self.on}")
        seed = self.random.randrange(2**31)
        has_other_trigger = options.in_turn or options.probability is not None
        job_fault = JobFault(
            on=self.on,
            at=options.at,
            crash=options.action,
            every_nth=options.every_nth or (None if has_other_trigger else _WITHOUT_CHOICE_NTH),
            in_turn=options.in_turn,
            first=tuple(sorted(running)) if options.in_turn else (),
            share=options.probability or 1.0,
            seed=seed if options.seed is None else options.seed,
        )
        start_job_fault(self.context.job_faults, self.name, job_fault)
        return {"job_fault": job_fault.model_dump(mode="json", exclude_defaults=True)}

    def tick(self) -> None:
        """Record which processes died or stopped, replace the dead, and resume those whose pause is over."""
        if self._kills is not None:
            self._kills.tick()
            return
        for process in self._stopped():
            self._record_pause(process)
        for process, since_s in list(self._paused.items()):
            if process.poll() is not None or time.monotonic() >= since_s + self._pause_s:
                self._resume(process)

    def why_inactive(self) -> str | None:
        """Check that at least one process died or stopped at the point."""
        self.tick()
        hit = self._kills.killed if self._kills is not None else self._were_paused
        return None if hit else f"no process of {self.on} passed the point {self.options.at} often enough to crash"

    def undo(self) -> Evidence:
        """Remove the job fault, replace the processes that died, and resume those that are stopped."""
        end_job_fault(self.context.job_faults, self.name)
        if self._kills is not None:
            self._kills.end()
            return {KILLED: self._kills.killed, JOBS: self._kills.jobs}
        wait_until(lambda: not self._announced(), within_s=_STOPPED_WITHIN_S, every_s=_POLL_S)
        late = [process.name for process in self._announced()]
        for process in list(self._paused):
            self._resume(process)
        if late:  # nobody would resume it
            raise NotCarriedOutError(
                f"{', '.join(late)} announced that it stops at {self.options.at}, but did not within {_STOPPED_WITHIN_S:g} s"
            )
        return {PAUSED: self._were_paused, JOBS: self._jobs_paused}

    @property
    def _does_kill(self) -> bool:
        return self.options.action == "kill"

    @property
    def _pause_s(self) -> float:
        if self.options.pause_for_s is not None:
            return self.options.pause_for_s
        expiry_s = self.context.queue.expiry_s
        return _WITHOUT_EXPIRY_S if expiry_s is None else expiry_s + _AFTER_EXPIRY_S

    def _announced(self) -> list[Process]:
        """Record the processes that have stopped; return those that have announced it, but have not stopped yet."""
        for process in self._stopped():
            self._record_pause(process)
        folder = self.context.job_faults
        return [
            process
            for process in self.context.load.named(self.on)
            if process not in self._paused and has_announced(folder, self.name, process.name, "pause")
        ]

    def _stopped(self) -> list[Process]:
        folder = self.context.job_faults
        return [
            process
            for process in self.context.load.named(self.on)
            if process not in self._paused and has_announced(folder, self.name, process.name, "pause") and process.is_paused()
        ]

    def _record_pause(self, process: Process) -> None:
        self._paused[process] = time.monotonic()
        self._were_paused.append(process.name)
        self._jobs_paused.append(read_announced_job(self.context.job_faults, self.name, process.name, "pause"))

    def _resume(self, process: Process) -> None:
        del self._paused[process]
        remove_announcement(self.context.job_faults, self.name, process.name, "pause")
        process.signal(signal.SIGCONT)
