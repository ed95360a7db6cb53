"""Builds the wheel in a copy of the project, so that nothing is written into it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from stallbench import PROJECT

_FILES = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")
_BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def build_wheel(folder: Path) -> Path:
    """Build the wheel in ``folder`` and return it."""
    source, target = folder / "source", folder / "dist"
    source.mkdir(parents=True)
    target.mkdir()
    for path in PROJECT.iterdir():
        if path.name in _FILES:
            shutil.copy(path, source / path.name)
        elif path.is_dir() and not path.name.startswith(".") and not path.name.endswith(".egg-info"):
            shutil.copytree(path, source / path.name, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    # A file that an earlier version had is in the folder that setuptools reuses.
    stale = source / "build" / "lib" / "producers" / "stale.py"
    stale.parent.mkdir(parents=True, exist_ok=True)
    stale.touch()
    subprocess.run([sys.executable, "-c", _BUILD, str(target)], cwd=source, check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    return wheel
