"""Job faults: faults inside workers. Each is a file in a folder that every worker reads before each job.

A worker that is started meanwhile reads it, too. The job fault ends when its file is removed.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

_SUFFIX = ".json"
_ANNOUNCEMENT_SUFFIX = ".killed"


class JobFault(BaseModel):
    """One job fault."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    on: str = Field(description="the worker that it affects, and that worker's replacements; `workers` for all")
    mark: str | None = Field(default=None, description="affects only jobs that bear this mark; all jobs if none")
    share: float = Field(default=1.0, gt=0, le=1, description="share of these jobs that it affects, drawn at each execution")
    kills: bool = Field(default=False, description="whether the job kills its worker (SIGKILL)")
    fails: bool = Field(default=False, description="whether the job fails")
    takes_s: float | None = Field(default=None, ge=0, description="how long the job takes instead of its usual time")
    clock_offset_s: float = Field(default=0, description="added to the worker's clock")

    def applies_to(self, worker: str) -> bool:
        """Whether it affects this worker."""
        return self.on in ("workers", worker) or worker.startswith(f"{self.on}-")


def start_job_fault(folder: Path, name: str, job_fault: JobFault) -> None:
    """Activate ``job_fault`` under ``name``, which is not used again in this run."""
    folder.mkdir(exist_ok=True)
    fresh = folder / f"{name}.new"
    fresh.write_text(job_fault.model_dump_json())
    fresh.replace(folder / f"{name}{_SUFFIX}")


def end_job_fault(folder: Path, name: str) -> None:
    """End the job fault ``name``, if it is active."""
    (folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)


def has_announced_kill(folder: Path, name: str, worker: str) -> bool:
    """Whether ``worker`` has announced that job fault ``name`` is about to kill it; it may have ended by now."""
    return _announcement(folder, name, worker).exists()


def remove_announcement(folder: Path, name: str, worker: str) -> None:
    """Remove the announcement of a worker that has ended, if it made one."""
    _announcement(folder, name, worker).unlink(missing_ok=True)


def _announcement(folder: Path, name: str, worker: str) -> Path:
    return folder / f"{name}.{worker}{_ANNOUNCEMENT_SUFFIX}"


class JobFaults:
    """The job faults that are active for one worker."""

    def __init__(self, folder: Path | None, worker: str) -> None:
        """Read ``folder`` when asked to; without one there are no job faults."""
        self._folder = folder
        self._folder_name = os.fspath(folder) if folder else ""
        self._worker = worker
        self._active: dict[str, JobFault] = {}

    def read_active(self) -> dict[str, JobFault]:
        """Return the job faults that are active now, by name."""
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
        return {name: found for name, found in self._active.items() if found.applies_to(self._worker)}

    def announce_kill(self, name: str) -> bool:
        """Announce that job fault ``name`` kills this worker now; withdraw that and return false if the job fault has ended meanwhile.

        The worker announces it before it reads the job faults once more. So after a job fault has ended, a worker without an announcement is not
        killed by it.
        """
        assert self._folder is not None
        announcement = _announcement(self._folder, name, self._worker)
        announcement.touch()
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
