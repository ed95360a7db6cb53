"""What goes wrong inside workers while the run's faults say so: a folder with a file for each, which a worker looks into before each job.

A worker that is started anew meanwhile finds it, too, and when the file is gone all goes right again.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

_SUFFIX = ".json"
_DYING_SUFFIX = ".dying"


class JobFault(BaseModel):
    """One thing that goes wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    on: str = Field(description="the worker that it strikes, and whoever comes in its place; `workers` for all")
    mark: str | None = Field(default=None, description="strikes only jobs that bear this mark; all if none")
    share: float = Field(default=1.0, gt=0, le=1, description="of these jobs, drawn anew at each execution")
    kills: bool = Field(default=False, description="whether the job is the death of its worker (SIGKILL)")
    fails: bool = Field(default=False, description="whether the job fails")
    takes_s: float | None = Field(default=None, ge=0, description="how long the job takes instead of what it should")
    clock_offset_s: float = Field(default=0, description="added to what the worker takes for the time")

    def strikes(self, worker: str) -> bool:
        """Whether it is meant for this worker."""
        return self.on in ("workers", worker) or worker.startswith(f"{self.on}-")


def start_job_fault(folder: Path, name: str, job_fault: JobFault) -> None:
    """Let ``job_fault`` be in force under ``name``, which is not used again in this run."""
    folder.mkdir(exist_ok=True)
    fresh = folder / f"{name}.new"
    fresh.write_text(job_fault.model_dump_json())
    fresh.replace(folder / f"{name}{_SUFFIX}")


def end_job_fault(folder: Path, name: str) -> None:
    """Let it no longer be in force, if it is."""
    (folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)


def has_announced_death(folder: Path, name: str, worker: str) -> bool:
    """Whether that worker has announced that it dies of the job_fault and not gone on since; by then it may be dead."""
    return _announcement(folder, name, worker).exists()


def forget_announcement(folder: Path, name: str, worker: str) -> None:
    """Forget the announcement of a worker that is dead, if it made one."""
    _announcement(folder, name, worker).unlink(missing_ok=True)


def _announcement(folder: Path, name: str, worker: str) -> Path:
    return folder / f"{name}.{worker}{_DYING_SUFFIX}"


class JobFaults:
    """What is in force for one worker."""

    def __init__(self, folder: Path | None, worker: str) -> None:
        """Look into ``folder`` when asked to; without one nothing ever goes wrong."""
        self._folder = folder
        self._worker = worker
        self._in_force: dict[str, JobFault] = {}

    def look(self) -> dict[str, JobFault]:
        """Return what is in force now, by its name."""
        if self._folder is None:
            return {}
        try:
            names = sorted(path.name for path in self._folder.iterdir() if path.suffix == _SUFFIX)
        except FileNotFoundError:
            names = []
        if [name.removesuffix(_SUFFIX) for name in names] != list(self._in_force):
            self._in_force = {name.removesuffix(_SUFFIX): found for name in names if (found := self._read(name))}
        return {name: found for name, found in self._in_force.items() if found.strikes(self._worker)}

    def announce_death(self, name: str) -> bool:
        """Announce that this worker dies of the job_fault now; take it back and return false if that has been lifted meanwhile.

        It is announced before the last look. So whoever lifts the job_fault and finds no announcement knows that nobody will die of it any more.
        """
        assert self._folder is not None
        announcement = _announcement(self._folder, name, self._worker)
        announcement.touch()
        if name in self.look():
            return True
        announcement.unlink(missing_ok=True)
        return False

    def _read(self, name: str) -> JobFault | None:
        assert self._folder is not None
        try:
            return JobFault.model_validate_json((self._folder / name).read_text())
        except FileNotFoundError:
            return None  # lifted since it was listed
