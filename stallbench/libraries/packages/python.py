"""Python packages by the hashes in ``requirements.lock``, in a virtual environment: the library itself, or programs like Node.js."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.libraries.definition import Library
from stallbench.libraries.packages.kind import PackageKind, present
from stallbench.setup.components import CACHE, require_trusted_program
from stallbench.setup.packages import InstallError, install_wheel, pip_configuration, run
from stallbench.setup.python_interpreter import Version, describe_search, find_python
from stallbench.setup.uv_settings import settings_for_uv

_LOCK = "requirements.lock"
_BUILD_LOCK = "build.lock"
"""What compiles packages that are published without wheels."""
_EARLIER_LOCKS = "earlier-*.lock"
"""Each has an earlier version of the library, to migrate from, without what it depends on: that is in `_LOCK`."""


class PythonPackages(PackageKind):
    """Installed by uv."""

    def files(self, folder: Path) -> Sequence[Path]:
        """Return the locks."""
        own = present(folder, _LOCK)
        return [*own, *present(folder, _BUILD_LOCK), *_earlier_locks(folder)] if own else []

    def find_missing_requirement(self, library: Library) -> str | None:
        """Return the version of Python that it needs, and what was found, if there is no such Python."""
        at_least = _least_version(library)
        if find_python(at_least) is not None:
            return None
        version = library.python_at_least
        return f"Python {version} or later; {describe_search(at_least)}; put a python{version} on the PATH, or run: pyenv install {version}"

    def install(self, library: Library, target: Path) -> None:
        """Make a virtual environment of ``target``, with the locked packages, and a folder in it for each earlier version of the library."""
        python = find_python(_least_version(library))
        if python is None:
            raise InstallError(f"it needs {self.find_missing_requirement(library)}")
        uv = require_trusted_program(CACHE / "installer" / "bin" / "uv")
        if not uv.is_file():
            uv = install_wheel("installer") / "bin" / "uv"
        cache = target.parent / f"{target.name}.uv"
        environment = {"UV_CACHE_DIR": str(cache), **settings_for_uv(pip_configuration()), **os.environ}
        install = [str(uv), "pip", "install", "--quiet", "--no-progress", "--python", str(target / "bin" / "python")]
        build = [part for path in present(library.folder, _BUILD_LOCK) for part in ("--build-constraints", str(path))]
        locked = [*install, "--require-hashes", "--requirement"]
        try:
            run([str(uv), "venv", "--quiet", "--python", str(python), str(target)], environment=environment)
            run([*locked, str(library.folder / _LOCK), *build], environment=environment)
            for lock in _earlier_locks(library.folder):
                run([*locked, str(lock), "--no-deps", "--target", str(target / lock.stem)], environment=environment)
        finally:
            shutil.rmtree(cache, ignore_errors=True)

    def programs(self, target: Path) -> Mapping[str, Path]:
        """Return the interpreter of the virtual environment."""
        return {"{python}": target / "bin" / "python"}


def _earlier_locks(folder: Path) -> list[Path]:
    return sorted(folder.glob(_EARLIER_LOCKS))


def _least_version(library: Library) -> Version:
    """Return the oldest version of Python that the library supports; the bench's own if its definition has none."""
    if library.python_at_least is None:
        return sys.version_info[:2]
    major, minor = library.python_at_least.split(".")
    return int(major), int(minor)
