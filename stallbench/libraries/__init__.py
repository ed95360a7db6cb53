"""Published queue libraries under test. To add one, add a folder to ``libraries/`` (docs/add-a-library.md).

A library runs in its own language and environment: the bench starts its worker, gives its producer the jobs, and reads its tables.
"""

from __future__ import annotations

from functools import cache

from stallbench import PROJECT
from stallbench.libraries.definition import Library, LibraryError, read_library

__all__ = ["PREFIX", "Library", "LibraryError", "find_libraries", "find_library"]

LIBRARIES = PROJECT / "libraries"
PREFIX = "library:"
"""What the kind of a queue begins with that is a library: ``library:procrastinate``."""


@cache
def find_libraries() -> dict[str, Library]:
    """Return every library by its name, in alphabetical order; raises `LibraryError` for an invalid ``library.toml``."""
    return {path.parent.name: read_library(path) for path in sorted(LIBRARIES.glob("*/library.toml"))}


@cache
def find_library(name: str) -> Library:
    """Return the library ``name``; raises `LibraryError` if there is none, or if its ``library.toml`` is invalid."""
    path = LIBRARIES / name / "library.toml"
    if not path.is_file():
        names = ", ".join(PREFIX + each.parent.name for each in sorted(LIBRARIES.glob("*/library.toml")))
        raise LibraryError(f"there is no library {name!r}; there are {names}")
    return read_library(path)
