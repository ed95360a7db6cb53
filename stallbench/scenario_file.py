"""Reads scenario files: the file, its variant and the user's changes become one `Scenario`, or a line for each thing
that is wrong.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stallbench.errors import BadInputError
from stallbench.run_folder import PROJECT
from stallbench.scenario import Scenario
from stallbench.scenario_faults import find_faults, tell_validation_error
from stallbench.scenario_overlay import OverlayError, apply_change, apply_variant
from stallbench.spelling import did_you_mean

SCENARIOS = PROJECT / "scenarios"
_LARGEST_BYTES = 1024 * 1024


class ScenarioError(BadInputError):
    """A scenario that cannot be run; its text is one line for each fault."""

    def __init__(self, faults: Sequence[str]) -> None:
        """Carry ``faults``, each a whole line."""
        super().__init__("\n".join(faults))
        self.faults = list(faults)


def find_scenarios() -> dict[str, Path]:
    """Return the project's scenarios by name, in alphabetical order."""
    return {path.stem: path for path in sorted(SCENARIOS.glob("*.toml"))}


def read_scenario(name_or_path: str, *, variant: str | None = None, overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario by its name or path, with ``variant`` and then ``overrides`` (``key=value``) laid over it.

    Every variant of the file is validated, not only the one that is asked for. Raises `ScenarioError`.
    """
    path = _find(name_or_path)
    shown = _shown(path)
    content = _read_toml(path, shown)
    variants = _take_variants(content, shown)
    if variant is not None and variant not in variants:
        raise ScenarioError([f"{shown}: there is no variant {variant!r}; {_list_of(variant, variants)}"])
    for name, overlay in variants.items():
        _resolve(path, shown, content, name, overlay, ())
    return _resolve(path, shown, content, variant, variants[variant] if variant else {}, overrides)


def read_variants(path: Path) -> dict[str, str]:
    """Return the summaries of a file's variants by name; empty where a variant has none of its own."""
    shown = _shown(path)
    content = _read_toml(path, shown)
    return {name: str(overlay.get("summary", "")) for name, overlay in _take_variants(content, shown).items()}


def _resolve(
    path: Path,
    shown: str,
    content: Mapping[str, Any],
    variant: str | None,
    overlay: Mapping[str, Any],
    overrides: Sequence[str],
) -> Scenario:
    try:
        resolved = apply_variant(content, overlay, f"variants.{variant}")
        for override in overrides:
            resolved = apply_change(resolved, override)
    except OverlayError as error:
        raise ScenarioError([f"{shown}: {error}"]) from error
    # A fault that only a variant has is told with the variant's name; the file's own faults come without it.
    where = f"{shown}: " if variant is None else f"{shown}: variant {variant}: "
    try:
        scenario = Scenario.model_validate(
            {**resolved, "name": path.stem, "file": shown, "variant": variant, "changes": tuple(overrides)}
        )
    except ValidationError as error:
        raise ScenarioError([f"{where}{fault}" for fault in tell_validation_error(error, Scenario)]) from error
    if faults := find_faults(scenario):
        raise ScenarioError([f"{where}{fault}" for fault in faults])
    return scenario


def _find(name_or_path: str) -> Path:
    known = find_scenarios()
    if name_or_path in known:
        return known[name_or_path]
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.exists() or "/" in name_or_path:
        return path
    raise ScenarioError([f"there is no scenario {name_or_path!r}; {_list_of(name_or_path, known)}, or give a path"])


def _shown(path: Path) -> str:
    """Return the path as the user knows it: from the project's root or as given."""
    return str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else str(path)


def _read_toml(path: Path, shown: str) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ScenarioError([f"{shown}: not a file; expected a scenario, a TOML file"])
        if size > _LARGEST_BYTES:
            raise ScenarioError([f"{shown}: {size:,} bytes long; a scenario has at most {_LARGEST_BYTES:,}"])
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ScenarioError([f"{shown}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ScenarioError([f"{shown}: not text in UTF-8 (byte {error.start}); expected a TOML file"]) from error
    if not text.strip():
        raise ScenarioError([f"{shown}: empty; see docs/add-a-scenario.md for what a scenario holds"])
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ScenarioError([f"{shown}: not valid TOML: {error}"]) from error


def _take_variants(content: dict[str, Any], shown: str) -> dict[str, dict[str, Any]]:
    """Take the variants out of ``content`` and return them by name."""
    variants = content.pop("variants", {})
    if not isinstance(variants, dict) or not all(isinstance(overlay, dict) for overlay in variants.values()):
        raise ScenarioError([f"{shown}: variants must be tables, like [variants.skip_locked]"])
    return variants


def _list_of(name: str, known: Mapping[str, object]) -> str:
    there_are = f"there are {', '.join(known)}" if known else "there is none"
    return f"{there_are}{did_you_mean(name, known)}"
