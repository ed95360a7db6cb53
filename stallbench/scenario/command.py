"""The command that repeats a run, from the scenario that its record has."""

from __future__ import annotations

from collections.abc import Iterable

from stallbench.scenario.model import Scenario
from stallbench.shell_command import format_shell_command

_OF_PROJECT = "scenarios/"


def format_run_command(recorded: Scenario) -> str:
    """Return ``stallbench run`` with the variant and the changes of the run, for a shell."""
    return format_shell_command(
        [
            "stallbench",
            "run",
            argument_of(recorded.name, recorded.file),
            *list_variant(recorded.variant),
            *list_changes(recorded.changes),
        ]
    )


def list_variant(variant: str | None) -> list[str]:
    """Return the words that choose a variant, if there is one."""
    return ["--variant", variant] if variant else []


def list_changes(changes: Iterable[str]) -> list[str]:
    """Return the words that make the changes, each ``key=value``."""
    return [word for change in changes for word in ("--set", change)]


def changes_of(changes: Iterable[str], section: str) -> list[str]:
    """Return those of ``changes``, each ``key=value``, that are within a section of the scenario, or replace it."""
    return [change for change in changes if change.partition("=")[0].strip().partition(".")[0] == section]


def argument_of(name: str, file: str) -> str:
    """Return what `name_of` does, as a command takes it: never what could be an option."""
    called = name_of(name, file)
    return f"./{file}" if called.startswith("-") else called


def name_of(name: str, file: str) -> str:
    """Return what a command calls the scenario of ``file``: its name, or the path if it is not one of the project's scenarios."""
    return name if is_of_project(name, file) else file


def is_of_project(name: str, file: str) -> bool:
    """Whether the scenario ``name`` was read from the project's own file."""
    return file == f"{_OF_PROJECT}{name}.toml"
