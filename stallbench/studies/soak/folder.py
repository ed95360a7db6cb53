"""The folder of a soak: its record, a run's folder for each cycle, and what all cycles share."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from stallbench.errors import NotCarriedOutError
from stallbench.run.folder import SOAK_LINKS, RunFolder, create_folder
from stallbench.studies.soak.record import SoakRecord
from stallbench.studies.study import StudyFolder


@dataclass(frozen=True, slots=True)
class CycleFolder(RunFolder):
    """The folder of the running cycle, by a path that is the same in every cycle, so that processes that keep running find the next one."""

    @property
    def logs(self) -> Path:
        """Shared by all cycles, because a process that keeps running keeps printing into the same file."""
        return self.path.parent / "logs"

    @property
    def job_faults(self) -> Path:
        """Shared by all cycles, because workers that keep running keep reading it."""
        return self.path.parent / "job_faults"


class SoakFolder(StudyFolder[SoakRecord]):
    """A soak's folder; its parts are described in docs/soak.md."""

    model = SoakRecord

    @property
    def log(self) -> Path:
        """All messages of the bench, including those after its terminal was closed."""
        return self.path / "soak.log"

    @property
    def current(self) -> CycleFolder:
        """The running cycle."""
        return CycleFolder(self.path / SOAK_LINKS[0])

    def cycle(self, number: int) -> RunFolder:
        """Return the folder of a cycle."""
        return RunFolder(self.path / _name_cycle(number))

    def begin_cycle(self, number: int) -> RunFolder:
        """Create the folder of a cycle and point `current` at it.

        A folder of this number that is there already belongs to a cycle whose bench ended before it could record the cycle: it is removed.
        """
        folder = self.cycle(number)
        if folder.path.exists():
            shutil.rmtree(folder.path)
        for part in (folder.events, folder.samples):
            part.mkdir(parents=True)
        fresh = self.path / SOAK_LINKS[1]
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(_name_cycle(number))
        fresh.replace(self.current.path)
        return folder


def _name_cycle(number: int) -> str:
    """Return the path of a cycle relative to its soak's folder."""
    return f"cycles/{number:04d}"


def create_soak_folder(runs: Path, name: str, variant: str | None) -> SoakFolder:
    """Create the folder of a soak that is about to start; ``latest`` keeps pointing at a run.

    Raises `NotCarriedOutError` if ``runs`` cannot be written.
    """
    folder = SoakFolder(create_folder(runs, "soak", name, variant))
    try:
        for part in (folder.path / "cycles", folder.current.logs):
            part.mkdir()
    except OSError as error:
        raise NotCarriedOutError(f"{folder.path}: cannot be written: {error.strerror or error}") from error
    return folder
