"""Python packages by the hashes in ``requirements.lock``, in a virtual environment: the library itself, or programs like Node.js."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.libraries.packages.kind import PackageKind, present
from stallbench.setup.components import CACHE
from stallbench.setup.packages import install_wheel, output, run
from stallbench.setup.uv_settings import settings_for_uv

_LOCK = "requirements.lock"


class PythonPackages(PackageKind):
    """Installed by uv."""

    def files(self, folder: Path) -> Sequence[Path]:
        """Return the lock."""
        return present(folder, _LOCK)

    def install(self, folder: Path, target: Path) -> None:
        """Make a virtual environment of ``target``, with the locked packages."""
        uv = CACHE / "installer" / "bin" / "uv"
        if not uv.is_file():
            uv = install_wheel("installer") / "bin" / "uv"
        cache = target.parent / f"{target.name}.uv"
        configuration = output([sys.executable, "-m", "pip", "config", "list"])
        environment = {"UV_CACHE_DIR": str(cache), **settings_for_uv(configuration), **os.environ}
        install = [str(uv), "pip", "install", "--quiet", "--no-progress", "--python", str(target / "bin" / "python")]
        try:
            run([str(uv), "venv", "--quiet", "--python", sys.executable, str(target)], environment=environment)
            run([*install, "--require-hashes", "--requirement", str(folder / _LOCK)], environment=environment)
        finally:
            shutil.rmtree(cache, ignore_errors=True)

    def programs(self, target: Path) -> Mapping[str, Path]:
        """Return the interpreter of the virtual environment."""
        return {"{python}": target / "bin" / "python"}
