"""Where runs are kept, how their folders are named, and how one is found again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.scenario import Scenario

PROJECT = Path(__file__).resolve().parent.parent
RUNS = PROJECT / "reports" / "runs"
_LATEST = "latest"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder; its parts are described in docs/run-folder.md."""

    path: Path

    @property
    def record(self) -> Path:
        """``run.json``."""
        return self.path / "run.json"

    @property
    def events(self) -> Path:
        """Folder of the job logs."""
        return self.path / "events"

    @property
    def samples(self) -> Path:
        """Folder of what the collectors measured."""
        return self.path / "samples"

    @property
    def logs(self) -> Path:
        """Folder of what processes and servers printed."""
        return self.path / "logs"

    @property
    def census(self) -> Path:
        """Every job that the queue still held at the end."""
        return self.path / "census.csv"


def create_run_folder(scenario: Scenario, runs: Path) -> RunFolder:
    """Make the folder of a new run and point ``latest`` at it.

    Raises `NotCarriedOutError` if ``runs`` cannot be written.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = "-".join(part for part in (stamp, scenario.name, scenario.variant) if part)
    try:
        folder = RunFolder(_make_new(runs, name))
        for part in (folder.events, folder.samples, folder.logs):
            part.mkdir()
        _point_latest_at(folder.path)
    except OSError as error:
        raise NotCarriedOutError(
            f"{runs}: a run's folder cannot be made there: {error.strerror or error}; choose another place with --runs DIR"
        ) from error
    return folder


def find_run_folder(run: str, runs: Path) -> RunFolder:
    """Return the folder of ``run``, a path or a name below ``runs`` (``latest`` is one).

    Raises `BadInputError` if there is no such folder or it is not a run's.
    """
    for candidate in (Path(run), runs / run):
        if candidate.is_dir():
            if not (candidate / "run.json").is_file():
                raise BadInputError(f"{candidate}: not a run's folder: it has no run.json; runs are below {runs}")
            return RunFolder(candidate.resolve())
    newest = sorted((path.parent.name for path in runs.glob("*/run.json") if path.parent.name != _LATEST), reverse=True)
    raise BadInputError(
        f"{run}: no such run; expected a folder, or a name below {runs}"
        + (f", like {', '.join(newest[:3])}" if newest else " (there is none yet)")
    )


def _make_new(runs: Path, name: str) -> Path:
    runs.mkdir(parents=True, exist_ok=True)
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        path = runs / f"{name}{suffix}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise NotCarriedOutError(f"{runs}/{name}: a hundred runs of that name began in this second")


def _point_latest_at(path: Path) -> None:
    link = path.parent / _LATEST
    fresh = path.parent / f".{_LATEST}-{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(path.name)
    fresh.replace(link)
