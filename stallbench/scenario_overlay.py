"""Lays variants and single changes over a scenario's content.

Tables are merged key by key and arrays are replaced, with two conveniences: ``phase.<name>`` changes one phase of the array
by its name, and a
``queue`` with a ``kind`` of its own replaces the whole table, so that options of one queue do not leak into another.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from typing import Any

from stallbench.spelling import did_you_mean


class OverlayError(Exception):
    """A variant or change that fits nowhere; the text says where and why."""


def apply_variant(content: Mapping[str, Any], overlay: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return ``content`` with ``overlay`` laid over it; neither is changed. ``where`` names the overlay in errors."""
    resolved: dict[str, Any] = copy.deepcopy(dict(content))
    for key, value in overlay.items():
        if key == "phase":
            _change_phases(resolved, value, where)
        elif key == "queue" and isinstance(value, dict) and "kind" in value:
            resolved[key] = copy.deepcopy(value)
        elif isinstance(value, dict) and isinstance(resolved.get(key), dict):
            resolved[key] = _merge(resolved[key], value)
        else:
            resolved[key] = copy.deepcopy(value)
    return resolved


def apply_change(content: Mapping[str, Any], change: str) -> dict[str, Any]:
    """Return ``content`` with one ``key=value`` laid over it: a dotted key as in a variant, a value as in TOML, or else text."""
    key, equals, text = change.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise OverlayError(f"--set {change!r}: expected KEY=VALUE, like workers.count=4")
    if parts == ["phases"] or parts[0] == "variants":
        raise OverlayError(f"--set {change!r}: {parts[0]} cannot be set; change a phase by phase.NAME.KEY=VALUE")
    value: Any = _parse_value(text.strip())
    for part in reversed(parts):
        value = {part: value}
    if parts[0] != "queue":
        return apply_variant(content, value, f"--set {change!r}")
    # A change of queue.kind alone is meant: the options that the file gave the other queue go with it.
    if parts == ["queue", "kind"]:
        return apply_variant(content, value, f"--set {change!r}")
    merged = copy.deepcopy(dict(content))
    merged["queue"] = _merge(merged.get("queue", {}), value["queue"])
    return merged


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _merge(base: Any, overlay: Mapping[str, Any]) -> Any:
    if not isinstance(base, dict):
        return copy.deepcopy(dict(overlay))
    merged = dict(base)
    for key, value in overlay.items():
        merged[key] = _merge(merged[key], value) if isinstance(value, dict) and key in merged else copy.deepcopy(value)
    return merged


def _change_phases(resolved: dict[str, Any], changes: Any, where: str) -> None:
    phases = resolved.get("phases")
    if not isinstance(changes, dict) or not isinstance(phases, list):
        raise OverlayError(f"{where}.phase: expected a table for each phase to be changed, like phase.longtx.duration")
    by_name = {phase.get("name"): phase for phase in phases if isinstance(phase, dict)}
    for name, change in changes.items():
        if name not in by_name:
            known = [str(known) for known in by_name]
            raise OverlayError(
                f"{where}.phase.{name}: there is no phase {name!r}; there are {', '.join(known)}{did_you_mean(name, known)}"
            )
        if not isinstance(change, dict):
            raise OverlayError(f"{where}.phase.{name} is {change!r}; expected keys of a phase, like phase.{name}.duration")
        by_name[name].update(copy.deepcopy(change))
