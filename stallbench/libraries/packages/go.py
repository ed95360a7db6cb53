"""Go modules by the hashes in ``go.sum``: compiled with the adapter into one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.libraries.definition import Library
from stallbench.libraries.packages.kind import CONTRACT, PackageKind, present
from stallbench.setup.go_toolchain import build_module


class GoModules(PackageKind):
    """Downloaded and compiled by go."""

    def files(self, folder: Path) -> Sequence[Path]:
        """Return the list of the modules, the lock, and the sources of the adapter."""
        own = present(folder, "go.mod", "go.sum", "adapter.go")
        others = sorted(set(folder.glob("*.go")).difference(own))
        return [*own, *others, *sorted((CONTRACT / "go").iterdir())] if own else []

    def install(self, library: Library, target: Path) -> None:
        """Compile the adapter."""
        build_module(library.folder, _adapter(target))

    def programs(self, target: Path) -> Mapping[str, Path]:
        """Return the compiled adapter."""
        return {"{adapter}": _adapter(target)}


def _adapter(target: Path) -> Path:
    return target / "adapter"
