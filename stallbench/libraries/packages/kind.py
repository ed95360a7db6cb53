"""What a kind of packages is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench import PROJECT

CONTRACT = PROJECT / "libraries" / "contract"
"""The folder with the module of each language that its adapters share."""


class PackageKind(ABC):
    """Installs one kind of packages for a library, if the library has any."""

    @abstractmethod
    def files(self, folder: Path) -> Sequence[Path]:
        """Return the files that decide what is installed for the library in ``folder``; none if it has no packages of this kind.

        These are its locks and, for a language whose adapter is compiled, also the sources. If one of them changes, the library is installed anew.
        """

    @abstractmethod
    def install(self, folder: Path, target: Path) -> None:
        """Install the packages of the library in ``folder`` into ``target``, which other kinds use too.

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
