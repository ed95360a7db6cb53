"""Converts the arguments of the fixture to those of the command line, and finds the files that they name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.scenario.toml import format_key, format_value

_MOST_FOLDERS = 1000
_LONGEST_NAME = 120
_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "scenario": ((str, os.PathLike), "a name from stallbench list or a path"),
    "queue": (str, 'a text, like "app/queue.py:MyQueue"'),
    "variant": (str, "the name of a variant"),
    "phases": (Mapping, 'a dictionary, like {"longtx": "20s"}'),
    "set": (Mapping, 'a dictionary, like {"workers.count": 8}'),
    "expect": (Sequence, "a list of dictionaries"),
    "require": ((str, Sequence), 'a name, like "survives", or a list of names or dictionaries'),
    "judge": (str, '"reproduced" or "survives"'),
}
"""What the fixture takes, and how it is described."""


def require_types(**arguments: object) -> None:
    """Raise `BadInputError` for an argument of another type than the fixture takes. None is an argument that is not given."""
    for name, value in arguments.items():
        if name not in _TYPES or value is None:
            continue
        types, expected = _TYPES[name]
        if not isinstance(value, types) or (types is Sequence and isinstance(value, str)):
            raise BadInputError(f"{name} is {value!r}; expected {expected}")


def describe_changes(
    *,
    queue: str | None = None,
    phases: Mapping[str, object] | None = None,
    set: Mapping[str, object] | None = None,  # noqa: A002 - the name of the option
    expect: Sequence[Mapping[str, object]] | None = None,
    require: str | Sequence[str | Mapping[str, object]] | None = None,
    judge: str | None = None,
    **unknown: object,
) -> list[str]:
    """Return the options ``--set KEY=VALUE``; raises `BadInputError` for an argument that does not exist."""
    if unknown:
        allowed = "scenario, queue, variant, phases, set, expect, require, judge, against and tolerance"
        raise BadInputError(f"the fixture stallbench has no argument {', '.join(sorted(unknown))}; expected {allowed}")
    changes: dict[str, object] = {}
    if queue is not None:
        changes["queue.kind"] = queue
    for name, value in (phases or {}).items():
        keys = value if isinstance(value, Mapping) else {"duration": value}
        changes.update({f"phases.{format_key(str(name))}.{key}": each for key, each in keys.items()})
    changes.update(set or {})
    given = {"expect": expect, "require": require, "judge": judge}
    changes.update({name: value for name, value in given.items() if value is not None})
    return [part for key, value in changes.items() for part in ("--set", _write_change(key, value))]


def describe_against(against: object, tolerance: object, root: Path) -> list[str]:
    """Return the options ``--against`` and ``--tolerance``; a path that is below ``root`` and not below the working directory becomes absolute."""
    tolerances = [] if tolerance is None else [tolerance] if isinstance(tolerance, str) else tolerance
    if not isinstance(tolerances, Sequence) or not all(isinstance(each, str) for each in tolerances):
        raise BadInputError(f'tolerance is {tolerance!r}; expected a text like "30%", or a list of texts')
    if against is not None and not isinstance(against, str | os.PathLike):
        raise BadInputError(f"against is {against!r}; expected the path of a baseline file")
    file = [] if against is None else ["--against", _find(os.fspath(against), root)]
    return [*file, *(part for each in tolerances for part in ("--tolerance", each))]


def find_queue_file(queue: str, root: Path) -> str:
    """Return a queue's name; a path in it that is below ``root`` and not below the working directory becomes absolute."""
    prefix, colon, rest = queue.partition(":")
    if prefix == "library" and "/" in rest:
        return f"{prefix}{colon}{_find(rest, root)}"
    path, colon, class_name = queue.rpartition(":")
    return f"{_find(path, root)}{colon}{class_name}" if path.endswith(".py") else queue


def find_scenario_file(scenario: str, root: Path) -> str:
    """Return a scenario's name, or its path as `find_queue_file` does."""
    return _find(scenario, root) if scenario.endswith(".toml") else scenario


def name_folder(reports: Path, test: str) -> Path:
    """Make the folder of a run of ``test``; of several, each has its own. Raises `NotCarriedOutError` if it cannot be made."""
    name = re.sub(r"[^\w.-]+", "-", test).strip("-")[-_LONGEST_NAME:]
    try:
        reports.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MOST_FOLDERS):
            folder = reports / (name if number == 1 else f"{name}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
    except OSError as error:
        raise NotCarriedOutError(f"{reports}: cannot create a folder for reports there: {error.strerror}") from error
    raise NotCarriedOutError(f"{reports}: has {_MOST_FOLDERS} folders of {test}; remove those that you do not need")


def _find(path: str, root: Path) -> str:
    return path if Path(path).exists() or not (root / path).exists() else str(root / path)


def _write_change(key: str, value: object) -> str:
    try:
        return f"{key}={format_value(value)}"
    except BadInputError as error:
        raise BadInputError(f"{key}: {error}") from None
