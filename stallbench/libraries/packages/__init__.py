"""The kinds of packages that libraries consist of, one file for each kind: which files of a library lock them, and how they are installed.

To add a kind, add its file and put its class into `KINDS`.
"""

from __future__ import annotations

from stallbench.libraries.packages.debian import DebianPackages
from stallbench.libraries.packages.go import GoModules
from stallbench.libraries.packages.java import JavaLibraries
from stallbench.libraries.packages.kind import PackageKind
from stallbench.libraries.packages.npm import NpmPackages
from stallbench.libraries.packages.python import PythonPackages

__all__ = ["KINDS", "PackageKind"]

KINDS: tuple[PackageKind, ...] = (PythonPackages(), NpmPackages(), GoModules(), JavaLibraries(), DebianPackages())
"""In the order of installation: Python packages also contain programs that later kinds need, like Node.js."""
