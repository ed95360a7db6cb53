"""Removes what dead runs left behind: their processes, what they changed on external servers, and their folders.

Only what this user's bench has made is looked at, and never for its name alone: the temporary folders of a machine are everybody's, and so may
be the folder of the runs.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import BaseModel, Field, ValidationError

from stallbench.base.storage.password_file import remove_password
from stallbench.base.storage.private import UntrustedError, open_trusted, read_trusted
from stallbench.errors import BadInputError
from stallbench.processes.reaper import (
    OWNER_FILE,
    SCRATCH_PREFIX,
    find_marked,
    is_bench_alive,
    mark_aborted,
    reap,
    remove_scratch,
    run_cleanup_journal,
)
from stallbench.run.folder import EARLIER_STUDIES, STUDY
from stallbench.run.record import BenchRecord, parse_record

_NAMED_BY_OWNER = re.compile(rf"{SCRATCH_PREFIX}(?:spark|pipeline|observe|profile|torture)-(\d+)-")
"""A temporary folder without servers, with the id of the process that made it, see `stallbench.processes.reaper.name_temporary`."""
_DEEPEST = 2
"""How deep below a folder that the bench made the folders of runs are, at most."""
_FOLDER_NAME = re.compile(r"\d{8}T\d{6}Z-")
"""How the folders begin that the bench makes (`stallbench.run.folder.create_folder`)."""


class _Owner(BaseModel):
    """The process that a temporary folder belongs to, as `stallbench.processes.reaper.mark_owner` writes it."""

    token: str = Field(min_length=1)
    pid: int
    process_started_s: float


_WITHOUT_BENCH = ("torture.json", "conformance.json")
"""Records of earlier versions that do not say which process wrote them. Those of the runs beside them do."""


class _EarlierStudy(BaseModel):
    """What the other records of studies that earlier versions wrote have in common."""

    format: int
    status: str
    bench: BenchRecord


def _parse_earlier(text: str, where: str) -> _EarlierStudy:
    try:
        return _EarlierStudy.model_validate_json(text)
    except ValidationError as error:
        raise BadInputError(f"{where}: not a study's record: {error.errors()[0]['msg']}") from None


def _parse_study(text: str, where: str) -> BenchRecord:
    # All that studies and their reports need takes two seconds of a processor, and few leftovers are of a study.
    from stallbench.studies.kind import parse_kind
    from stallbench.studies.study import parse_study

    return parse_study(text, where, parse_kind(text, where).folder.model).bench


_PARSERS: Mapping[str, Callable[[str, str], BenchRecord]] = {
    "run.json": lambda text, where: parse_record(text, where).bench,
    STUDY: _parse_study,
    **{file: lambda text, where: _parse_earlier(text, where).bench for file in EARLIER_STUDIES if file not in _WITHOUT_BENCH},
}
"""By file name, what reads a record and returns the process that wrote it; each raises `BadInputError` if the file is no such record."""


@dataclass(frozen=True, slots=True)
class _Record:
    """A record of this bench."""

    path: Path
    bench: BenchRecord

    @property
    def is_dead(self) -> bool:
        return not is_bench_alive(self.bench.model_dump())


def remove_leftovers(runs: Path, *, delete_runs: bool = False, forget: bool = False) -> list[str]:
    """Remove what dead runs left behind and return one sentence for each action, and for what has to stay; active runs are not touched.

    ``delete_runs``: also delete all recorded runs below ``runs``. ``forget``: also remove cleanup journals that cannot be carried out.
    """
    done: list[str] = []
    for scratch in sorted(Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*")):
        done += _clean_scratch(scratch, forget=forget)
    for folder in sorted(runs.glob("*")):
        if _is_own_folder(folder):
            done += _clean_folder(folder, delete=delete_runs)
    latest = runs / "latest"
    if latest.is_symlink() and not latest.exists() and latest.lstat().st_uid == os.geteuid():
        latest.unlink()
    return done


def _is_own_folder(path: Path) -> bool:
    """Whether it is a folder, and no link to one, of this user. What belongs to somebody else is nobody's concern here."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _clean_scratch(scratch: Path, *, forget: bool) -> Iterator[str]:
    """Remove the temporary folder of a dead process, and what its run left; yields one sentence for each action, and for what has to stay."""
    try:
        with open_trusted(scratch) as folder:
            content = folder.read(OWNER_FILE)
    except (UntrustedError, FileNotFoundError) as error:
        if _is_own_folder(scratch):
            yield f"left as it is: {error}"
        return
    if named := _NAMED_BY_OWNER.match(scratch.name):
        if not psutil.pid_exists(int(named[1])):
            shutil.rmtree(scratch, ignore_errors=True)
            yield f"removed {scratch} of a process that is dead"
        return
    try:
        owner = _Owner.model_validate_json(content or b"")
    except ValidationError:
        return  # it is not of a run, or its bench is about to write who owns it
    if is_bench_alive(owner.model_dump()):
        return
    marked = find_marked(owner.token, scratch)
    reap(owner.token, scratch)
    remaining, others = run_cleanup_journal(scratch)
    yield from (*remaining, *others)
    if remaining and not forget:
        yield (
            f"kept {scratch} with the cleanup journal: run `stallbench clean` again to retry, "
            "or with --forget if the servers no longer exist"
        )
        return
    remove_scratch(scratch)
    yield f"removed {scratch} and {len(marked)} processes of a run whose bench is dead"


def _clean_folder(folder: Path, *, delete: bool) -> Iterator[str]:
    """Correct the records of dead runs in a folder, and delete it if asked to and no bench uses it; yields one sentence for each action.

    A limit, torture or conformance has the folders of its runs in its own, which only the name shows if it was killed before it wrote a record.
    A folder with a file of such a name that is no record of this bench is not the bench's to delete, and neither is the file to be corrected.
    """
    is_of_bench = _FOLDER_NAME.match(folder.name) is not None
    records: list[_Record] = []
    foreign: list[str] = []
    for path in sorted(_find_files(folder, _DEEPEST if is_of_bench else 0)):
        try:
            content = read_trusted(path)
            records += [_Record(path, _PARSERS[path.name]((content or b"").decode(errors="replace"), str(path)))]
        except (BadInputError, UntrustedError, OSError) as error:
            foreign.append(str(error))
    dead = [record.path for record in records if record.is_dead]
    for path in dead:
        try:
            remove_password(path.parent)
        except (UntrustedError, OSError) as error:
            yield f"left as it is: {error}"
        if mark_aborted(path, "the bench was killed"):
            yield f"{path.parent.relative_to(folder.parent)}: marked as aborted"
    if not delete:
        return
    if foreign and (is_of_bench or records):
        yield f"{folder.name}: kept, because it contains what is no record of this bench: {foreign[0]}"
    elif records and len(dead) == len(records):
        shutil.rmtree(folder)
        yield f"{folder.name}: deleted"


def _find_files(folder: Path, levels: int) -> Iterator[Path]:
    """Yield the files that are named like records in a folder, and in those below it, without following links."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in _PARSERS:
                yield Path(entry.path)
            elif levels and entry.is_dir(follow_symlinks=False):
                yield from _find_files(Path(entry.path), levels - 1)
