"""The command that repeats a run, from the scenario that its record has."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from stallbench.scenario.model import Scenario

_OF_PROJECT = "scenarios/"


def format_run_command(recorded: Scenario) -> str:
    """Return ``stallbench run`` with the variant and the changes of the run, for a shell."""
    variant = f" --variant {recorded.variant}" if recorded.variant else ""
    return f"stallbench run {name_of(recorded.name, recorded.file)}{variant}{format_changes(recorded.changes)}"


def format_changes(changes: Iterable[str]) -> str:
    """Return a ``--set`` for each ``key=value``, quoted for a shell where it has to be."""
    return "".join(f" --set {shlex.quote(change)}" for change in changes)


def name_of(name: str, file: str) -> str:
    """Return what a command calls the scenario of ``file``: its name, or the path if it is not one of the project's scenarios."""
    return name if is_of_project(name, file) else file


def is_of_project(name: str, file: str) -> bool:
    """Whether the scenario ``name`` was read from the project's own file."""
    return file == f"{_OF_PROJECT}{name}.toml"
