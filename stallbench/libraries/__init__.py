"""Published queue libraries under test. To add one, add a folder to ``libraries/`` (docs/add-a-library.md).

A user's own application is tested in the same way, from a folder of its own (docs/test-my-application.md).

A library runs in its own language and environment: the bench starts its worker, gives its producer the jobs, and reads its tables.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from stallbench import PROJECT
from stallbench.libraries.definition import Library, LibraryError, read_library
from stallbench.suggestion import describe_allowed

__all__ = ["DEFINITION", "Library", "LibraryError", "find_libraries", "find_library", "list_names"]

LIBRARIES = PROJECT / "libraries"
DEFINITION = "library.toml"


@cache
def find_libraries() -> dict[str, Library]:
    """Return every library by its name, in alphabetical order; raises `LibraryError` for an invalid ``library.toml``."""
    return {path.parent.name: read_library(path) for path in sorted(LIBRARIES.glob(f"*/{DEFINITION}"))}


def list_names() -> list[str]:
    """Return the names of the bench's own libraries, in alphabetical order, without reading their definitions."""
    return sorted(path.parent.name for path in LIBRARIES.glob(f"*/{DEFINITION}"))


@cache
def find_library(name: str) -> Library:
    """Return the library ``name``, or, if ``name`` is a path, the one in that folder; a relative path starts at the working directory.

    Raises `LibraryError` if there is none, or if its ``library.toml`` is invalid.
    """
    if "/" in name:
        return _read_library_in(Path(os.path.abspath(name)))  # noqa: PTH100 - the name of `../` is that of a folder
    path = LIBRARIES / name / DEFINITION
    if not path.is_file():
        or_path = ", or the path of a folder of your own, like ./path/to/folder"
        raise LibraryError(f"there is no library {name!r}; {describe_allowed(name, list_names(), or_path)}")
    return read_library(path)


def _read_library_in(folder: Path) -> Library:
    if not folder.is_dir():
        raise LibraryError(f"there is no folder {folder}")
    path = folder / DEFINITION
    if not path.is_file():
        raise LibraryError(f"{folder} has no {DEFINITION}; docs/test-my-application.md shows one")
    return read_library(path)
