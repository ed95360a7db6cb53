"""Reads scenario files: a file, its variant and the user's changes become one `Scenario`, or an error with a line for each issue."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stallbench import PROJECT
from stallbench.base.section import Name
from stallbench.base.validation_issue import ValidationIssue, show_value
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.queues.user_queue import is_user_queue
from stallbench.scenario.chaos import with_seed
from stallbench.scenario.listing import find_scenarios
from stallbench.scenario.model import Scenario
from stallbench.scenario.overlay import Overlay, list_foreign_settings, parse_changes
from stallbench.scenario.requirement import Requirement
from stallbench.scenario.toml import ScenarioError, read_toml, show_path
from stallbench.scenario.validation.comparison import find_overlay_issues
from stallbench.scenario.validation.scenario import find_issues, prepare_answers
from stallbench.suggestion import describe_allowed, did_you_mean

__all__ = [
    "ScenarioError",
    "find_scenario",
    "find_scenarios",
    "is_scenario_name",
    "make_scenario",
    "read_mitigations",
    "read_scenario",
    "read_variants",
]

_NAME = "a name of up to 63 small letters, digits, - and _, the first a letter"
_NAMES = TypeAdapter(Name)


def read_scenario(name_or_path: str, *, variant: str | None = None, overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario by its name or path, and apply ``variant`` and then ``overrides`` (``key=value``) to it.

    Every variant of the file is validated, not only ``variant``. Raises `ScenarioError` with all issues.
    """
    path = find_scenario(name_or_path)
    shown = show_path(path, PROJECT)
    return make_scenario(read_toml(path, shown), path, where=shown, variant=variant, overrides=overrides)


def make_scenario(
    content: Mapping[str, Any], path: Path, *, where: str, variant: str | None = None, overrides: Sequence[str] = ()
) -> Scenario:
    """Return the scenario with the ``content`` of the file at ``path``, as `read_scenario` does; the file is not read.

    ``where``: what an error names as the place of an issue. Raises `ScenarioError` with all issues.
    """
    variants = content.get("variants", {})
    content = {key: value for key, value in content.items() if key != "variants"}
    issues = [*_find_name_issues(path), *_find_variants_issues(variants)]
    if issues:
        raise ScenarioError([f"{where}: {issue}" for issue in issues])
    overlays = _make_overlays(variants)
    chosen = overlays[variant].apply(content)[0] if variant in overlays else content
    changes, change_issues = parse_changes(overrides)
    of_command_line = Overlay(content=changes, prefix="--set ", condition="--set: ")
    changed, overlay_issues = of_command_line.apply(chosen)
    if variant in overlays and (foreign := list_foreign_settings(overlays[variant].content, chosen, changes)):
        problem = f" is {show_value(changes['database']['engine'])}, whose servers do not know what variant {variant} sets"
        overlay_issues.append(
            ValidationIssue(("database", "engine"), f"{problem}: {', '.join(foreign)}; expected another variant")
        )
    of_file = _find_file_issues(path, content, overlays, changed)
    issues = [*of_file.base]
    if variant is not None and variant not in variants:
        issues.append(f"there is no variant {show_value(variant)}; {_describe_known(variant, variants)}")
    issues += of_file.variants
    if overrides:
        issues += [
            *change_issues,
            *_describe_own_issues(of_command_line, changed, overlay_issues, find_issues(chosen, variants), variants),
        ]
    if issues:
        raise ScenarioError([f"{where}: {issue}" for issue in issues])
    origin = {"name": path.stem, "file": show_path(path, PROJECT), "variant": variant, "changes": tuple(overrides)}
    read = Scenario.model_validate({**(changed if overrides else chosen), **origin})
    states_own = _states_own_expectations(content, overlays[variant].content if variant else {}, changes)
    return _with_what_is_judged(with_seed(read, read.seed), states_own=states_own)


def _states_own_expectations(content: Mapping[str, Any], of_variant: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """Whether expectations, or none on purpose, are stated for the queue that runs, not only for another one whose place it takes.

    Those of a file are for all queues of the bench's own in it: its variants were written together with them. Those of a library are for all libraries.
    """
    in_file, by_variant, by_command = (_kind_of(each) for each in (content, of_variant, changes))
    layers = [content, of_variant, changes]
    if by_variant not in (None, in_file) and (_is_library(by_variant) or is_user_queue(str(by_variant))):
        layers = [of_variant, changes]
    replaced = by_variant or in_file
    if by_command not in (None, replaced) and not (_is_library(by_command) and _is_library(replaced)):
        layers = [changes]
    return any("expect" in each or "also_expect" in each for each in layers)


def _is_library(kind: str | None) -> bool:
    return kind is not None and kind.startswith(LIBRARY_PREFIX)


def _kind_of(content: Mapping[str, Any]) -> str | None:
    queue = content.get("queue")
    kind = queue.get("kind") if isinstance(queue, dict) else None
    return kind if isinstance(kind, str) else None


def _with_what_is_judged(read: Scenario, *, states_own: bool) -> Scenario:
    """Return the scenario with only the expectations and requirements that its runs are judged by; ``states_own``: see above."""
    if read.judge == "reproduced":
        return read.model_copy(update={"require": ()})
    if read.judge == "survives" or not states_own:
        return read.model_copy(update={"expect": (), "require": read.require or (Requirement(outcome="survives"),)})
    return read


def read_variants(path: Path) -> dict[str, str]:
    """Return the summary of each variant of a file, by the variant's name. A summary is empty if the variant has none.

    Raises `ScenarioError` if the variants cannot be listed. Whether they can be run is checked by `read_scenario`.
    """
    shown = show_path(path, PROJECT)
    variants = read_toml(path, shown).get("variants", {})
    if issues := _find_variants_issues(variants):
        raise ScenarioError([f"{shown}: {issue}" for issue in issues])
    return {name: str(overlay.get("summary", "")) for name, overlay in variants.items()}


def read_mitigations(path: Path) -> dict[str, bool]:
    """Return the variants of a file that are meant to mitigate its problem, and whether each replaces or changes the queue.

    Raises `ScenarioError` as `read_variants` does.
    """
    shown = show_path(path, PROJECT)
    variants = read_toml(path, shown).get("variants", {})
    if issues := _find_variants_issues(variants):
        raise ScenarioError([f"{shown}: {issue}" for issue in issues])
    return {name: "queue" in overlay for name, overlay in variants.items() if "mitigation" in overlay}


def _make_overlays(variants: Mapping[str, Any]) -> dict[str, Overlay]:
    return {
        name: Overlay(content=overlay, prefix=f"variants.{name}.", condition=f"with variant {name}: ")
        for name, overlay in variants.items()
    }


@dataclass(frozen=True, slots=True)
class _FileIssues:
    """A line for each issue of a file."""

    base: tuple[str, ...]
    variants: tuple[str, ...]
    """Issues that its content has only with a variant."""


_known: dict[str, _FileIssues] = {}
"""The issues that were found, by a hash of the file's path and content. A command reads a file once for each variant; validating all variants takes a
third of a second."""


def _find_file_issues(
    path: Path, content: Mapping[str, Any], overlays: Mapping[str, Overlay], changed: Mapping[str, Any]
) -> _FileIssues:
    """Find the issues of a file and all of its variants. ``changed``: what is validated next."""
    key = hashlib.sha256(repr((path.resolve(), content, overlays)).encode(errors="surrogatepass")).hexdigest()
    if key not in _known:
        varied = {name: overlay.apply(content) for name, overlay in overlays.items()}
        prepare_answers([content, *(resolved for resolved, _ in varied.values()), changed])
        base_issues = find_issues(content, overlays)
        own_issues = [
            line
            for name, overlay in overlays.items()
            for line in _describe_own_issues(overlay, *varied[name], base_issues, overlays)
        ]
        _known[key] = _FileIssues(tuple(map(str, base_issues)), tuple(own_issues))
    return _known[key]


def _describe_own_issues(
    overlay: Overlay,
    resolved: Mapping[str, Any],
    overlay_issues: Sequence[ValidationIssue],
    base_issues: Sequence[ValidationIssue],
    variants: Collection[str],
) -> list[str]:
    """Return a line for each of the ``overlay_issues``, and for each issue of ``resolved`` that is not in ``base_issues``.

    ``overlay_issues``: those of applying ``overlay``. ``resolved``: the scenario with the overlay applied.
    """
    own_issues = [issue for issue in find_issues(resolved, variants) if issue not in base_issues]
    return [
        *(f"{overlay.prefix}{issue}" for issue in overlay_issues),
        *(overlay.describe(issue, resolved) for issue in own_issues),
    ]


def find_scenario(name_or_path: str) -> Path:
    """Return the file of a scenario by its name or path; raises `ScenarioError` if there is none."""
    known = find_scenarios()
    if name_or_path in known:
        return known[name_or_path]
    path = Path(name_or_path)
    if name_or_path and _is_there(path):
        return path
    if path.suffix or len(path.parts) > 1:
        near = did_you_mean(path.stem, known)
        raise ScenarioError([f"{show_path(path, PROJECT)}: there is no such file{near}"])
    raise ScenarioError([f"there is no scenario {show_value(name_or_path)}; {_describe_known(name_or_path, known)}"])


def _is_there(path: Path) -> bool:
    """Whether there is, or may be, a file at ``path``. If it cannot be accessed, reading it reports why."""
    try:
        return path.exists()
    except PermissionError:
        return True
    except OSError:
        return False


def _find_name_issues(path: Path) -> list[str]:
    if is_scenario_name(path.stem):
        return []
    return [f"the file is named {show_value(path.stem)}; expected {_NAME}, and .toml"]


def _find_variants_issues(variants: object) -> list[str]:
    if not isinstance(variants, dict):
        return [f"variants is {show_value(variants)}; expected tables, like [variants.skip_locked]"]
    return [
        f"variants.{show_value(name)}: expected {_NAME}"
        if not is_scenario_name(name)
        else f"variants.{name} is {show_value(overlay)}; expected a table, like [variants.{name}]"
        for name, overlay in variants.items()
        if not is_scenario_name(name) or not isinstance(overlay, dict)
    ] + find_overlay_issues(variants)


def is_scenario_name(text: str) -> bool:
    """Whether a scenario or a variant may have this name."""
    try:
        _NAMES.validate_python(text)
    except ValidationError:
        return False
    return True


def _describe_known(name: str, known: Collection[str]) -> str:
    return describe_allowed(name, known) if known else "there is none"
