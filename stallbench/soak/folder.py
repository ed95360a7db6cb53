"""Where a soak is kept: its record, a run's folder for each cycle, and what outlives the cycles beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from stallbench.atomic_file import replace_file
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.run.folder import SOAK, RunFolder, create_folder
from stallbench.soak.record import SoakRecord


@dataclass(frozen=True, slots=True)
class CycleFolder(RunFolder):
    """A cycle's folder, by the name that leads to the cycle that goes on: processes that live on find each next one by it."""

    @property
    def logs(self) -> Path:
        """Of all cycles together: a process that lives on goes on printing into the same file."""
        return self.path.parent / "logs"

    @property
    def job_faults(self) -> Path:
        """Where workers that live on go on looking."""
        return self.path.parent / "job_faults"


@dataclass(frozen=True, slots=True)
class SoakFolder:
    """A soak's folder; its parts are described in docs/soak.md."""

    path: Path

    @property
    def record(self) -> Path:
        """``soak.json``."""
        return self.path / SOAK

    @property
    def log(self) -> Path:
        """What the bench has said, also after its terminal was gone."""
        return self.path / "soak.log"

    @property
    def current(self) -> CycleFolder:
        """The cycle that goes on."""
        return CycleFolder(self.path / "current")

    def cycle(self, number: int) -> RunFolder:
        """Return the folder of a cycle."""
        return RunFolder(self.path / name_cycle(number))

    def begin_cycle(self, number: int) -> RunFolder:
        """Make the folder of a cycle and let `current` lead to it."""
        folder = self.cycle(number)
        for part in (folder.events, folder.samples):
            part.mkdir(parents=True)
        fresh = self.path / ".current"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(name_cycle(number))
        fresh.replace(self.current.path)
        return folder

    def read(self) -> SoakRecord:
        """Read the record back; raises `BadInputError` if it is none."""
        try:
            return SoakRecord.model_validate_json(self.record.read_text())
        except ValidationError as error:
            fault = error.errors(include_input=False, include_url=False)[0]
            key = ".".join(str(part) for part in fault["loc"])
            raise BadInputError(f"{self.record}: not a soak's record: {key + ': ' if key else ''}{fault['msg']}") from None

    def write(self, record: SoakRecord) -> None:
        """Replace the record; a reader sees the old one or the new one, never a part."""
        replace_file(self.record, json.dumps(record.model_dump(mode="json"), indent=1))


def name_cycle(number: int) -> str:
    """Return the path of a cycle below its soak's folder."""
    return f"cycles/{number:04d}"


def create_soak_folder(runs: Path, name: str, variant: str | None) -> SoakFolder:
    """Make the folder of a soak that is about to start; ``latest`` goes on pointing at a run.

    Raises `NotCarriedOutError` if ``runs`` cannot be written.
    """
    folder = SoakFolder(create_folder(runs, "soak", name, variant))
    try:
        for part in (folder.path / "cycles", folder.current.logs):
            part.mkdir()
    except OSError as error:
        raise NotCarriedOutError(f"{folder.path}: cannot be written: {error.strerror or error}") from error
    return folder
