"""Applies a variant, or the changes of a command line, to a scenario's content.

The rules, which docs/add-a-scenario.md gives to users:

- Tables are merged key by key; everything else, arrays too, is replaced.
- ``phases`` as a table changes single phases by their names: ``phases.longtx.duration = "10s"``. The key may also be ``phase``.
- ``also_expect`` adds to ``expect``, which by itself replaces all expectations.
- A ``queue`` with a ``kind`` replaces the whole table: options of one queue never leak into another.
- An ``engine`` of another family than before removes the settings of the servers, except the connection limit if both engines have it by the same name.
  MariaDB and MySQL are one family.
- A phase's ``duration`` replaces its ``jobs``, which could make the phase longer.
- A phase's ``faults`` replace its ``chaos``, and the reverse.
- A ``rate`` replaces a ``capacity_share``, and the reverse.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stallbench.base.validation_issue import KeyPath, ValidationIssue, find_value, show_value
from stallbench.engines import DEFAULT_ENGINE, ENGINES
from stallbench.scenario.toml import TOO_DEEP, is_too_deep
from stallbench.suggestion import did_you_mean

_OTHER_LOAD = {"rate": "capacity_share", "capacity_share": "rate"}
_SETTINGS = ("settings", "replica_settings")
_OTHER_FAULTS = {"faults": "chaos", "chaos": "faults"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Changes to a scenario, and how an issue in them is described."""

    content: Mapping[str, Any]
    prefix: str
    """Text before the path of a key in ``content``: ``variants.skip_locked.`` or ``--set ``."""
    condition: str
    """Text before the path of any other key whose value is invalid only because of these changes: ``with variant skip_locked: ``."""

    def apply(self, base: Mapping[str, Any]) -> tuple[dict[str, Any], list[ValidationIssue]]:
        """Return a copy of ``base`` with the changes, and the issues of changes that cannot be applied to it."""
        resolved = copy.deepcopy(dict(base))
        issues: list[ValidationIssue] = []
        for key, value in copy.deepcopy(dict(self.content)).items():
            if key == "phase" or (key == "phases" and isinstance(value, dict)):
                issues += _change_phases(resolved, key, value)
            elif key == "queue" and isinstance(value, dict) and "kind" in value:
                resolved[key] = value
            elif key != "also_expect":
                if key == "database":
                    resolved["database"] = _without_foreign_settings(resolved.get("database", {}), value)
                resolved = _overlay(resolved, {key: value})
        issues += _add_expectations(resolved, self.content.get("also_expect", []))
        return resolved, issues

    def describe(self, issue: ValidationIssue, resolved: Mapping[str, Any]) -> str:
        """Return the line for an issue that the ``resolved`` content has only because of these changes."""
        path = self._find_own_path(issue.path, resolved)
        return f"{self.condition}{issue}" if path is None else f"{self.prefix}{ValidationIssue(path, issue.problem)}"

    def _find_own_path(self, path: KeyPath, resolved: Mapping[str, Any]) -> KeyPath | None:
        """Return where the changes have the value that is at ``path`` of the whole content; none if they do not have it."""
        added = self.content.get("also_expect")
        match path:
            case ("phases", int(index), *rest) if not isinstance(self.content.get("phases"), list):
                name = str(find_value(resolved, ("phases", index, "name")))
                by_name: list[KeyPath] = [(key, name, *rest) for key in ("phases", "phase")]
                path = next((path for path in by_name if find_value(self.content, path) is not None), path)
            case ("expect", int(index), *rest) if isinstance(added, list):
                before = len(resolved["expect"]) - len(added)
                path = ("also_expect", index - before, *rest) if index >= before else path
        return None if find_value(self.content, path) is None else path


def parse_changes(changes: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the content of one overlay from several ``key=value``, and a line for each that is invalid. A key is dotted as in a variant. A value is
    TOML or, if it is not valid TOML, text. If a key is given twice, its last value is used.
    """
    content: dict[str, Any] = {}
    issues: list[str] = []
    for change in changes:
        key, _, value = (part.strip() for part in change.partition("="))
        path = _parse_key(key)
        if not path or not value:
            issues.append(f"--set {show_value(change)}: expected KEY=VALUE, like workers.count=4")
        elif path[0] == "variants":
            issues.append(f"--set {show_value(change)}: a variant cannot be changed; change the key itself, without `variants.`")
        else:
            nested: Any = _parse_value(value)
            for part in reversed(path):
                nested = {part: nested}
            if is_too_deep(nested):
                issues.append(f"--set {show_value(change)}: {TOO_DEEP}")
            else:
                content = _overlay(content, nested)
    return content, issues


def _parse_key(key: str) -> list[str]:
    """Return the parts of a dotted key; empty if ``text`` is not a dotted key. Parts may be quoted as in TOML."""
    parts: list[str] = []
    if "\n" in key or len(key) > 200:
        return []
    try:
        here: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return []
    while isinstance(here, dict) and len(here) == 1:
        (part, here), *_ = here.items()
        parts.append(part)
    return parts


def _parse_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _overlay(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``overlay`` merged into it; a rate in it replaces a capacity share, and the reverse."""
    merged: dict[str, Any] = _merge(base, overlay)
    before, later = base.get("producers"), overlay.get("producers")
    if isinstance(before, dict) and isinstance(later, dict):
        displaced = {_OTHER_LOAD[key] for key in _OTHER_LOAD.keys() & later.keys()} - later.keys()
        merged["producers"] = {key: value for key, value in merged["producers"].items() if key not in displaced}
    return merged


def list_foreign_settings(content: Mapping[str, Any], base: Mapping[str, Any], overlay: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys of the servers' settings in ``content``, a part of ``base``, that ``overlay`` removes by another engine."""
    part, before, later = (each.get("database", {}) for each in (content, base, overlay))
    if not isinstance(part, dict) or not _changes_family(before, later):
        return []
    tables = {key: part[key] for key in _SETTINGS if isinstance(part.get(key), dict)}
    return [f"database.{key}.{name}" for key, table in tables.items() for name in table if name != _find_connection_limit(later)]


def _without_foreign_settings(base: Any, overlay: Any) -> Any:
    """Return the section ``[database]`` without the settings of its servers if ``overlay`` replaces the engine by one of another family."""
    if not _changes_family(base, overlay):
        return base
    kept = {
        key: {name: value for name, value in base[key].items() if name == _find_connection_limit(overlay)}
        for key in _SETTINGS
        if isinstance(base.get(key), dict)
    }
    return {**base, **kept}


def _find_connection_limit(database: Mapping[str, Any]) -> str | None:
    """Return the setting that limits the connections of the engine; none if the engine has none, or is unknown."""
    traits = next((traits for engine, traits in ENGINES.items() if engine == database["engine"]), None)
    return traits.connection_limit[0] if traits and traits.connection_limit else None


def _changes_family(base: Any, overlay: Any) -> bool:
    if not isinstance(base, dict) or not isinstance(overlay, dict) or "engine" not in overlay:
        return False
    before, later = (_find_family(engine) for engine in (base.get("engine", DEFAULT_ENGINE), overlay["engine"]))
    return bool(before != later)


def _find_family(engine: Any) -> Any:
    """Return what the engine has in common with others; an unknown one is an issue of its own."""
    return next((each.family for name, each in ENGINES.items() if name == engine), engine)


def _merge(base: Any, overlay: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(overlay, dict):
        return overlay
    return {**base, **{key: _merge(base.get(key), value) for key, value in overlay.items()}}


def _change_phases(resolved: dict[str, Any], key: str, changes: Any) -> list[ValidationIssue]:
    if not isinstance(changes, dict):
        return [
            ValidationIssue(
                (key,), f" is {show_value(changes)}; expected a table for each phase that changes, like phases.longtx.duration"
            )
        ]
    phases = resolved.get("phases")
    tables = [phase for phase in phases if isinstance(phase, dict)] if isinstance(phases, list) else []
    by_name = {phase["name"]: phase for phase in tables if isinstance(phase.get("name"), str)}
    issues = []
    for name, change in changes.items():
        path = (key, name)
        if name not in by_name:
            allowed = (
                f"expected one of {', '.join(by_name)}{did_you_mean(name, by_name)}" if by_name else "there is none to change"
            )
            issues.append(ValidationIssue(path, f": there is no such phase; {allowed}"))
        elif not isinstance(change, dict):
            problem = f" is {show_value(change)}; expected keys of a phase, like phases.{name}.duration"
            issues.append(ValidationIssue(path, problem))
        else:
            by_name[name].update(_merge(by_name[name], change))
            if "duration" in change and "jobs" not in change:
                by_name[name].pop("jobs", None)
            for displaced in {_OTHER_FAULTS[key] for key in _OTHER_FAULTS.keys() & change.keys()} - change.keys():
                by_name[name].pop(displaced, None)
    return issues


def _add_expectations(resolved: dict[str, Any], added: Any) -> list[ValidationIssue]:
    if not isinstance(added, list):
        return [ValidationIssue(("also_expect",), f" is {show_value(added)}; expected an array, like [{{ .. }}, {{ .. }}]")]
    if isinstance(resolved.setdefault("expect", []), list):
        resolved["expect"] = [*resolved["expect"], *copy.deepcopy(added)]
    return []
