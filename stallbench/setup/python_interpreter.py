"""Finds a Python for a library that needs a newer one than the bench itself.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Version = tuple[int, int]
"""Of a Python: major and minor, like (3, 12)."""

_PATIENCE_S = 20.0
_PRINT_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


@dataclass(frozen=True, slots=True, order=True)
class Python:
    """An interpreter on this machine."""

    version: Version
    program: Path


def find_python(at_least: Version) -> Path | None:
    """Return the bench's own Python if it is new enough, else the oldest that is: of those on the PATH, then of pyenv's; none if there is none.

    The oldest, because the packages of a lock are most likely to have wheels for it. A program that does not run is none: pyenv has a `python3.12`
    on the PATH even where no version 3.12 is chosen.
    """
    return next((python.program for python in _list_pythons() if python.version >= at_least and _runs(python)), None)


def describe_search(at_least: Version) -> str:
    """Say which Pythons were found, all of them older than ``at_least``, and where they were searched for."""
    found = sorted({python.version for python in _list_pythons() if python.version < at_least})
    versions = ", ".join(_format(version) for version in found)
    return f"found only {versions} (searched: the bench's own, python3.X on the PATH, and {_pyenv_versions()})"


def _list_pythons() -> Iterator[Python]:
    """Yield what may be a Python, in the order of preference."""
    yield Python(sys.version_info[:2], Path(sys.executable))
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    yield from _sort_named(path for folder in folders for path in folder.glob("python3.*"))
    yield from _sort_named(path / "bin" / "python" for path in _pyenv_versions().glob("3.*"))


def _sort_named(programs: Iterator[Path]) -> list[Python]:
    """Return the programs whose path says which version of Python they are, the oldest first, each version in the given order."""
    named = ((re.search(r"(?:/python|/versions/)3\.(\d+)(?:\.\d+/bin/python)?$", str(program)), program) for program in programs)
    return sorted((Python((3, int(match[1])), program) for match, program in named if match), key=lambda python: python.version)


def _pyenv_versions() -> Path:
    root = os.environ.get("PYENV_ROOT")
    return (Path(root) if root else Path.home() / ".pyenv") / "versions"


@cache
def _runs(python: Python) -> bool:
    """Whether the program is a Python of the version that its path says. Each is started once: a comparison of libraries asks for each of its runs."""
    try:
        ended = subprocess.run(
            [str(python.program), "-c", _PRINT_VERSION], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return ended.returncode == 0 and ended.stdout.strip() == _format(python.version)


def _format(version: Version) -> str:
    return ".".join(map(str, version))
