"""The command that starts a role: a package at the root of a clone, which a wheel keeps below the package ``stallbench``."""

from __future__ import annotations

from stallbench import IS_WHEEL
from stallbench.python_command import NOT_FROM_WORKING_DIRECTORY, python_command
from stallbench.shell_command import format_shell_command

PACKAGES = ("producers", "workers", "schedulers", "longrunners")
LOCUST = "locust"
"""Producers that Locust runs, with ``producers/locustfile.py``."""
_LAUNCHER = "stallbench.processes"


def role_command(role: str, *arguments: str) -> list[str]:
    """Return the command that starts one of `PACKAGES`, or `LOCUST`."""
    return python_command(_LAUNCHER, role, *arguments)


def describe_role_command(role: str, *arguments: str) -> str:
    """Return the command as a user would type it: the short form in a clone, whose root is the working directory."""
    launcher = [NOT_FROM_WORKING_DIRECTORY, "-m", _LAUNCHER] if IS_WHEEL else ["-m"]
    return format_shell_command(["python", *launcher, role, *arguments])
