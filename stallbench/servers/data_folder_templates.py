"""Keeps new data folders of servers as templates on this machine, to be copied: to initialise one takes seconds of processor time."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_FRESH = ".new"


def hash_program(program: Path, *others: object) -> str:
    """Return a part of a template's name that differs for another version of ``program``, and if one of ``others`` differs."""
    path = program.resolve()
    state = path.stat()
    parts = (path, state.st_size, state.st_mtime_ns, *others)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def copy_folder(folder: Path, target: Path) -> bool:
    """Copy a template, with its owners and permissions, to ``target``, which must not exist; returns whether that was possible."""
    if not folder.is_dir():
        return False
    copied = subprocess.run(["cp", "--archive", str(folder), str(target)], capture_output=True, check=False)
    if copied.returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
    return copied.returncode == 0


def keep_as_template(data: Path, template: Path, *, without: Iterable[str] = ()) -> None:
    """Keep a new data folder, but not its files ``without``, as a template; if that is not possible, the next one is initialised, too."""
    with suppress(OSError):
        template.parent.mkdir(parents=True, exist_ok=True)
        with (template.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another process keeps one just now
            fresh = template.with_name(template.name + _FRESH)
            shutil.rmtree(fresh, ignore_errors=True)
            if copy_folder(data, fresh) and not template.exists():
                for name in without:
                    (fresh / name).unlink(missing_ok=True)
                fresh.rename(template)
            shutil.rmtree(fresh, ignore_errors=True)
