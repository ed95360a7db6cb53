"""The command that starts a role: a package at the root of a clone, which a wheel keeps below the package ``stallbench``."""

from __future__ import annotations

import shlex
import sys

from stallbench import IS_WHEEL

PACKAGES = ("producers", "workers", "schedulers", "longrunners")
LOCUST = "locust"
"""Producers that Locust runs, with ``producers/locustfile.py``."""
_LAUNCHER = "stallbench.processes"


def role_command(role: str, *arguments: str) -> list[str]:
    """Return the command that starts one of `PACKAGES`, or `LOCUST`."""
    return [sys.executable, "-m", _LAUNCHER, role, *arguments]


def describe_role_command(role: str, *arguments: str) -> str:
    """Return the command as a user would type it: the short form in a clone."""
    return shlex.join(["python", "-m", *([_LAUNCHER] if IS_WHEEL else []), role, *arguments])
