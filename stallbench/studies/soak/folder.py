"""The folder of a soak: its record, a run's folder for each cycle, and what all cycles share."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from stallbench.base.duration import ON_RECORD
from stallbench.base.storage.atomic_file import replace_file
from stallbench.base.storage.format import require_format
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.run.folder import SOAK, SOAK_LINKS, RunFolder, create_folder
from stallbench.studies.soak.record import FORMAT, SoakRecord


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
        """All messages of the bench, including those after its terminal was closed."""
        return self.path / "soak.log"

    @property
    def current(self) -> CycleFolder:
        """The running cycle."""
        return CycleFolder(self.path / SOAK_LINKS[0])

    def cycle(self, number: int) -> RunFolder:
        """Return the folder of a cycle."""
        return RunFolder(self.path / name_cycle(number))

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
        fresh.symlink_to(name_cycle(number))
        fresh.replace(self.current.path)
        return folder

    def read(self) -> SoakRecord:
        """Return the record; raises `BadInputError` if the file holds none, or one in another format."""
        return read_record_file(self.record, SoakRecord, "soak", FORMAT)

    def write(self, record: SoakRecord) -> None:
        """Replace the record atomically."""
        replace_file(self.record, json.dumps(record.model_dump(mode="json"), indent=1))


def name_cycle(number: int) -> str:
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


Record = TypeVar("Record", bound=BaseModel)


def read_record_file(path: Path, model: type[Record], name: str, format_: int) -> Record:
    """Return the record of a ``name`` (comparison, soak) in ``path``; raises `BadInputError` if it holds none, or one in another format."""
    return parse_record_file(path.read_text(), str(path), model, name, format_)


def parse_record_file(text: str, where: str, model: type[Record], name: str, format_: int) -> Record:
    """Return the record in the ``text`` of the file ``where``; raises as `read_record_file` does."""
    try:
        advice = f"run the {name} again, or read it with the version that wrote it"
        require_format(json.loads(text), format_, where, advice)
        return model.model_validate_json(text, by_name=True, by_alias=False, context={ON_RECORD: True})
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadInputError(f"{where}: not a {name}'s record: {error}") from None
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in issue["loc"])
        raise BadInputError(f"{where}: not a {name}'s record: {key + ': ' if key else ''}{issue['msg']}") from None
