"""Job faults: faults inside the processes of the load. Each is a file in a folder that every worker reads before each job.

Processes that are started meanwhile read it, too. Producers and schedulers read only faults at a crash point. The job fault ends when its
file is removed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stallbench.queues.crash_points import CrashPoint

Crash = Literal["kill", "pause"]
"""What happens to a process at a crash point: SIGKILL, or SIGSTOP until the bench sends SIGCONT."""

_SUFFIX = ".json"
_ANNOUNCEMENT_SUFFIXES: dict[Crash, str] = {"kill": ".killed", "pause": ".stopped"}


class JobFault(BaseModel):
    """One job fault."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    on: str = Field(description="the process that it affects, and that process's replacements; `workers`, `producers` for all")
    mark: str | None = Field(default=None, description="affects only jobs with this mark; all jobs if none")
    share: float = Field(default=1.0, gt=0, le=1, description="share of these jobs that it affects, drawn at each execution")
    kills: bool = Field(default=False, description="whether the job kills its worker (SIGKILL)")
    fails: bool = Field(default=False, description="whether the job fails")
    takes_s: float | None = Field(default=None, ge=0, description="how long the job takes instead of its usual time")
    clock_offset_s: float = Field(default=0, description="added to the worker's clock")
    at: CrashPoint | None = Field(default=None, description="the point at which the process crashes; none if it does not")
    crash: Crash | None = Field(default=None, description="what happens there")
    every_nth: int | None = Field(default=None, ge=1, description="every n-th passage of a process crashes; by `share` if none")
    in_turn: bool = Field(default=False, description="instead of both: at one passage of each process, see `Crashes`")
    first: tuple[str, ...] = Field(default=(), description="with `in_turn`: the processes that run when it begins, in order")
    seed: int = Field(default=0, description="seed of the passages that are drawn by `share`")

    def applies_to(self, process: str, role: str = "worker") -> bool:
        """Whether it affects this process, which is of ``role``."""
        return self.on in (f"{role}s", process) or process.startswith(f"{self.on}-")


def start_job_fault(folder: Path, name: str, job_fault: JobFault) -> None:
    """Activate ``job_fault`` under ``name``, which is not used again in this run."""
    folder.mkdir(exist_ok=True)
    fresh = folder / f"{name}.new"
    fresh.write_text(job_fault.model_dump_json())
    fresh.replace(folder / f"{name}{_SUFFIX}")


def end_job_fault(folder: Path, name: str) -> None:
    """End the job fault ``name``, if it is active."""
    (folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)


def has_announced(folder: Path, name: str, process: str, crash: Crash = "kill") -> bool:
    """Whether ``process`` has announced that job fault ``name`` is about to kill or stop it, or has just done so."""
    return _announcement(folder, name, process, crash).exists()


def read_announced_job(folder: Path, name: str, process: str, crash: Crash) -> int | None:
    """Return the job that ``process`` announced, or none if there was no job or there is no announcement."""
    try:
        text = _announcement(folder, name, process, crash).read_text()
    except FileNotFoundError:
        return None
    return int(text) if text else None


def remove_announcement(folder: Path, name: str, process: str, crash: Crash = "kill") -> None:
    """Remove the announcement of a process that has ended or is about to be resumed, if it made one."""
    _announcement(folder, name, process, crash).unlink(missing_ok=True)


def _announcement(folder: Path, name: str, process: str, crash: Crash) -> Path:
    return folder / f"{name}.{process}{_ANNOUNCEMENT_SUFFIXES[crash]}"


class JobFaults:
    """The job faults that are active for one process."""

    def __init__(self, folder: Path | None, process: str, role: str = "worker") -> None:
        """Read ``folder`` at each `read_active`; without a folder there are no job faults."""
        self._folder = folder
        self._folder_name = os.fspath(folder) if folder else ""
        self.process = process
        self._role = role
        self._active: dict[str, JobFault] = {}
        self.last_read: dict[str, JobFault] = {}
        """What `read_active` returned last."""

    def read_active(self) -> dict[str, JobFault]:
        """Return the job faults that are active now, by name."""
        self.last_read = self._read_active()
        return self.last_read

    def _read_active(self) -> dict[str, JobFault]:
        if self._folder is None:
            return {}
        if not self._active and not os.access(self._folder_name, os.F_OK):
            return {}  # the usual case, asked for twice per job: most runs have no job fault
        try:
            names = sorted(path.name for path in self._folder.iterdir() if path.suffix == _SUFFIX)
        except FileNotFoundError:
            names = []
        if [name.removesuffix(_SUFFIX) for name in names] != list(self._active):
            self._active = {name.removesuffix(_SUFFIX): found for name in names if (found := self._read(name))}
        return {name: found for name, found in self._active.items() if found.applies_to(self.process, self._role)}

    def announce(self, name: str, crash: Crash = "kill", job_id: int | None = None) -> bool:
        """Announce that job fault ``name`` kills or stops this process now. If the job fault has ended meanwhile, withdraw the announcement and
        return false. The process first announces, and then reads the job faults once more. So after a job fault has ended, it affects no process
        without an announcement. ``job_id``: the job that the process has, if it has one.
        """
        assert self._folder is not None
        announcement = _announcement(self._folder, name, self.process, crash)
        announcement.write_text("" if job_id is None else str(job_id))
        if name in self.read_active():
            return True
        announcement.unlink(missing_ok=True)
        return False

    def _read(self, name: str) -> JobFault | None:
        assert self._folder is not None
        try:
            return JobFault.model_validate_json((self._folder / name).read_text())
        except FileNotFoundError:
            return None  # ended since it was listed
