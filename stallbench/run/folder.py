"""The folders of runs: where they are kept, how they are named, and how to find one."""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from stallbench import IS_WHEEL, PROJECT
from stallbench.base.storage.address import AnyPath, address_errors, open_address
from stallbench.base.storage.private import UntrustedError, require_own_folder, require_plain, require_trusted_link
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.records.final_snapshot import FINAL_SNAPSHOT_FILE
from stallbench.visible_text import say

if TYPE_CHECKING:
    from stallbench.scenario.model import Scenario

_RUNS = Path("reports", "runs")
RUNS = _RUNS if IS_WHEEL else PROJECT / _RUNS
"""Where runs are kept by default: an installed bench keeps them below the working directory."""
_LATEST = "latest"
STUDY = "study.json"
"""The file that identifies the folder of a study, as ``run.json`` identifies that of a run."""
EARLIER_STUDIES = {
    "comparison.json": "comparison",
    "torture.json": "torture",
    "limit.json": "search for a limit",
    "soak.json": "soak",
    "conformance.json": "test of conformance",
}
"""The records of studies that earlier versions wrote, and of what."""
SOAK_LINKS = ("current", ".current")
"""Links in the folder of a soak, which only the processes of its running cycle follow, after the bench has made the first of them anew from the second."""
GROUP_WRITES = 0o3770
"""Mode of a folder of a run into which the members of the group of ``--group`` write."""


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
        """Folder of the event logs."""
        return self.path / "events"

    @property
    def samples(self) -> Path:
        """Folder of the collectors' samples."""
        return self.path / "samples"

    @property
    def logs(self) -> Path:
        """Folder of the output of processes and servers."""
        return self.path / "logs"

    @property
    def job_faults(self) -> Path:
        """Folder of the active job faults; it exists only while one is active."""
        return self.path / "job_faults"

    @property
    def clocks(self) -> Path:
        """Folder of the clocks of a library's workers; it exists only if the scenario changes them."""
        return self.path / "clocks"

    @property
    def locust(self) -> Path:
        """Folder of Locust's own results; it exists only if Locust may take part."""
        from stallbench.scenario.locust_bounds import LOCUST_FOLDER  # loads the model of scenarios, which few commands need

        return self.path / LOCUST_FOLDER

    @property
    def final_snapshot(self) -> Path:
        """Every job that the queue still held at the end."""
        return self.path / FINAL_SNAPSHOT_FILE

    @property
    def left_over(self) -> Path:
        """Every job that was in the queue before the run: in a soak, the final snapshot of the previous cycle."""
        return self.path / "left_over.csv"


def create_run_folder(scenario: Scenario, runs: Path, *, is_latest: bool = True) -> RunFolder:
    """Make the folder of a new run; if it ``is_latest``, point ``latest`` to it.

    Raises `NotCarriedOutError` if the folder cannot be created.
    """
    folder = RunFolder(create_folder(runs, scenario.name, scenario.variant))
    with _creation_errors(runs):
        for part in (folder.events, folder.samples, folder.logs):
            part.mkdir()
        if is_latest:
            _point_latest_at(folder.path)
    return folder


def create_folder(runs: Path, *parts: str | None) -> Path:
    """Make a new folder below ``runs``, which only this user can enter, and return it, named by the time and ``parts``.

    Raises as `create_run_folder` does.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with _creation_errors(runs):
        return _make_new(runs, "-".join(part for part in (stamp, *parts) if part))


@contextmanager
def _creation_errors(runs: Path) -> Iterator[None]:
    """Turn an `OSError` in the block into a `NotCarriedOutError`."""
    try:
        yield
    except OSError as error:
        raise NotCarriedOutError(
            f"{runs}: a run's folder cannot be made there: {error.strerror or error}; choose another folder with --runs DIR"
        ) from error


def find_run_folder(run: str, runs: Path) -> RunFolder:
    """Return the folder of ``run``, a path or a name below ``runs`` (``latest`` is one).

    Raises `BadInputError` if there is no such folder or it is not a run's, `UntrustedError` if it contains a link or is another user's link.
    """
    for candidate in (Path(run), runs / run):
        if candidate.is_dir():
            require_trusted_link(candidate)
            if not (candidate / "run.json").is_file():
                inner = sorted(candidate.glob("*/run.json"))  # of a search for a limit, of a torture
                where = f"it contains runs, like {inner[0].parent}" if inner else f"runs are below {runs}"
                raise BadInputError(f"{candidate}: not a run's folder: it has no run.json; {where}")
            require_plain(folder := candidate.resolve())
            return RunFolder(folder)
    newest = sorted((path.parent.name for path in runs.glob("*/run.json") if path.parent.name != _LATEST), reverse=True)
    raise BadInputError(
        f"{run}: no such run; expected a folder, or a name below {runs}"
        + (f", like {', '.join(newest[:3])}" if newest else " (there is none yet)")
    )


def find_run_at(address: str) -> AnyPath:
    """Return the folder of the run at ``address``, like ``s3://bucket/runs/a-run``; raises `BadInputError` if there is none.

    Raises `NotCarriedOutError` if the address cannot be reached.
    """
    with address_errors(address):
        folder = open_address(address)
        try:
            folder.fs.info((folder / "run.json").path)
        except FileNotFoundError as error:
            if error.__cause__ is not None:  # there is not even a bucket
                raise
            raise BadInputError(f"{address}: not a run's folder: it has no run.json") from None
    return folder


def require_own(folder: Path) -> None:
    """Raise `UntrustedError` if another user can make links in the folder of a run or a study, which the bench would follow when it writes there.

    A link is looked for when the folder is found, but can be made afterwards. The members of the group of ``--group`` are trusted.
    """
    events = folder / "events"
    found = events.lstat() if events.is_dir() else None
    is_shared = found and found.st_mode & GROUP_WRITES == GROUP_WRITES and found.st_uid == folder.lstat().st_uid
    try:
        require_own_folder(
            folder, group=found.st_gid if found and is_shared else None, ignored=[folder / link for link in SOAK_LINKS]
        )
    except UntrustedError as error:
        raise UntrustedError(
            f"{error}; another user could lead what is written into the folder elsewhere: copy it to a folder of your own, by cp -r {folder} DIR"
        ) from error


def remove_run_folder(path: Path) -> None:
    """Remove a run's folder, and the link ``latest`` if it leads there."""
    link = path.parent / _LATEST
    if link.is_symlink() and link.resolve() == path.resolve():
        link.unlink()
    shutil.rmtree(path)


def find_study_folder(name: str, runs: Path) -> Path | None:
    """Return the folder of a study, a path or a name below ``runs``; None if there is none of that name.

    Raises `BadInputError` if an earlier version of the bench wrote it, `UntrustedError` as `find_run_folder` does.
    """
    for candidate in (Path(name), runs / name):
        older = next((file for file in EARLIER_STUDIES if (candidate / file).is_file()), None)
        if older is not None and not (candidate / STUDY).is_file():
            raise BadInputError(
                f"{candidate}: is a {EARLIER_STUDIES[older]} of an earlier version of stallbench, which wrote {older}; "
                f"this version reads {STUDY}: repeat the study, or read it with the version that wrote it"
            )
        if (candidate / STUDY).is_file():
            require_trusted_link(candidate)
            folder = candidate.resolve()
            require_plain(folder, ignored=[folder / link for link in SOAK_LINKS])
            return folder
    return None


def _make_new(runs: Path, name: str) -> Path:
    runs.mkdir(parents=True, exist_ok=True)
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        path = runs / f"{name}{suffix}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise NotCarriedOutError(f"{runs}/{name}: there are already a hundred folders with that name; run the scenario again")


def _point_latest_at(path: Path) -> None:
    """Replace the link; says so if what has its name cannot be replaced: in a folder of several users, everybody can make it first."""
    link = path.parent / _LATEST
    temporary = path.parent / f".{_LATEST}-{secrets.token_hex(8)}"
    temporary.symlink_to(path.name)
    try:
        temporary.replace(link)
    except (IsADirectoryError, PermissionError) as error:
        temporary.unlink()
        say(f"{link} is not the newest run: {error.strerror}; remove it, or name runs by their folders", to=sys.stderr)
