"""The interface of a kind of packages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench import PROJECT
from stallbench.libraries.definition import Library

CONTRACT = PROJECT / "libraries" / "contract"
"""The folder that has, for each language, the module that its adapters share."""


class PackageKind(ABC):
    """Installs one kind of packages for a library, if the library has any."""

    @abstractmethod
    def files(self, folder: Path) -> Sequence[Path]:
        """Return the files that decide what is installed for the library in ``folder``; none if it has no packages of this kind.

        These are its locks and, for a language whose adapter is compiled, also the sources. If one of them changes, the library is installed anew.
        """

    def find_missing_requirement(self, library: Library) -> str | None:
        """Return what the library needs, the machine does not have and the bench does not install, to follow "needs"; none if nothing is missing."""
        return None

    @abstractmethod
    def install(self, library: Library, target: Path) -> None:
        """Install the packages of ``library`` into ``target``, which other kinds use too.

        Raises `stallbench.setup.packages.InstallError`.
        """

    def programs(self, target: Path) -> Mapping[str, Path]:
        """Return the programs that a library's command can name, like ``{python}``."""
        return {}

    def environment(self, target: Path) -> Mapping[str, str]:
        """Return the environment variables that adapters need."""
        return {}


def present(folder: Path, *names: str) -> list[Path]:
    """Return the files in ``folder`` with these names if all of them are there, and none otherwise."""
    paths = [folder / name for name in names]
    return paths if all(path.is_file() for path in paths) else []
