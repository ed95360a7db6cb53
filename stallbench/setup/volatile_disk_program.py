"""Builds the file system that loses unsynced data: the Go module in ``stallbench/setup/volatile_disk``.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from stallbench.setup.components import CACHE, MissingComponentError, require_trusted_program
from stallbench.setup.go_toolchain import build_module
from stallbench.setup.packages import InstallError
from stallbench.setup.steps import Step, carry_out, one_at_a_time

_MODULE = Path(__file__).resolve().parent / "volatile_disk"
_FOLDER = CACHE / "volatile-disk"


def find_volatile_disk() -> Path | None:
    """Return the program that was built from the present source; none if there is none."""
    program = _program()
    return require_trusted_program(program) if os.access(program, os.X_OK) else None


def require_volatile_disk_program() -> Path:
    """Return the program; it is built when it is first needed, which takes about half a minute.

    Raises `MissingComponentError` if it cannot be built; the message says why.
    """
    reason: str | None = None
    if (found := find_volatile_disk()) is None:
        try:
            with one_at_a_time():
                reason = carry_out(volatile_disk_step(), sys.stderr)
        except OSError as error:
            reason = f"{error.filename or CACHE}: {error.strerror}"
        found = find_volatile_disk()
    if found is None:
        raise MissingComponentError(
            f"the file system for database.volatile_cache could not be built ({reason}); build it by: make setup   "
            "(needs Go, or a network that Go can be downloaded from)"
        )
    return found


def volatile_disk_step() -> Step:
    """Return the step that builds the program."""
    return Step(
        name="volatile disk",
        is_installed=lambda: find_volatile_disk() is not None,
        install=_build,
        command="make setup   (needs Go, or a network from which set-up can install it)",
        is_needed=False,
        lane="Go programs",
    )


def _program() -> Path:
    """Where the program is built. Its name contains the hash of its source, so that a change of the source is built anew."""
    source = hashlib.sha256()
    for path in sorted(_MODULE.glob("*.*")):
        source.update(path.name.encode() + path.read_bytes())
    return _FOLDER / f"volatile-disk-{source.hexdigest()[:12]}"


def _build() -> None:
    _FOLDER.mkdir(parents=True, exist_ok=True)
    program = _program()
    fresh = program.with_suffix(".new")
    build_module(_MODULE, fresh)
    for older in _FOLDER.glob("volatile-disk-*"):
        if older != fresh:
            older.unlink(missing_ok=True)
    if not fresh.is_file():
        raise InstallError("go built no program")
    fresh.replace(program)
