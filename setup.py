"""Puts the folders at the root into the wheel, below ``stallbench/bundled``, so that nothing but ``stallbench`` is at the top of site-packages.

``stallbench.PROJECT`` is the root of a clone, or this folder. An editable installation uses the folders where they are.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
BUNDLED = {
    "dashboards": "**/*",
    "docs": "**/*.md",
    "examples": "**/*",
    "libraries": "**/*",
    "longrunners": "**/*.py",
    "producers": "**/*.py",
    "reports/templates": "**/*",
    "requirements": "*",
    "scenarios": "*",
    "schedulers": "**/*.py",
    "workers": "**/*.py",
}
"""By folder: which of its files are copied. A new folder at the root that the bench reads when it runs has to be added."""


class BuildWithBundledFolders(build_py):
    """Builds the package ``stallbench``, then copies `BUNDLED` into it."""

    def run(self) -> None:
        """Build in an empty folder: setuptools keeps files that the project no longer has."""
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        for folder, pattern in BUNDLED.items():
            for path in sorted((ROOT / folder).glob(pattern)):
                if path.is_file() and "__pycache__" not in path.parts:
                    target = Path(self.build_lib, "stallbench", "bundled", path.relative_to(ROOT))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, target)


setup(cmdclass={"build_py": BuildWithBundledFolders})
