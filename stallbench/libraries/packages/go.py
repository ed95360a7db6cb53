"""Go modules by the hashes in ``go.sum``: compiled with the adapter into one program.

A program contains one version of a module. Each earlier version of a library, to migrate from, is in a program of its own, of the same sources:
``earlier-VERSION.mod`` and ``earlier-VERSION.sum`` are its ``go.mod`` and ``go.sum``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.libraries.definition import Library
from stallbench.libraries.packages.kind import CONTRACT, PackageKind, present
from stallbench.setup.go_toolchain import build_module

_EARLIER = "earlier-*.mod"


class GoModules(PackageKind):
    """Downloaded and compiled by go."""

    def files(self, folder: Path) -> Sequence[Path]:
        """Return the lists of the modules, the locks, and the sources of the adapter."""
        own = present(folder, "go.mod", "go.sum", "adapter.go")
        others = sorted({*folder.glob("*.go"), *folder.glob(_EARLIER), *folder.glob("earlier-*.sum")}.difference(own))
        return [*own, *others, *sorted((CONTRACT / "go").iterdir())] if own else []

    def install(self, library: Library, target: Path) -> None:
        """Compile the adapter, and a program ``earlier-VERSION`` beside it for each earlier version of the library."""
        build_module(library.folder, _adapter(target), variants=sorted(library.folder.glob(_EARLIER)))

    def programs(self, target: Path) -> Mapping[str, Path]:
        """Return the compiled adapter, which starts those of earlier versions."""
        return {"{adapter}": _adapter(target)}


def _adapter(target: Path) -> Path:
    return target / "adapter"
