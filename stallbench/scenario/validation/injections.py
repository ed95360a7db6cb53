"""Validation that faults, longrunners and maintenance share: each has a kind and a target."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from stallbench.base.validation_issue import KeyPath, ValidationIssue, show_value
from stallbench.injection.choices import Choice
from stallbench.scenario.validation.raw_scenario import as_items, valid
from stallbench.suggestion import did_you_mean

ChoiceT = TypeVar("ChoiceT", bound=Choice)


def find_choices(
    table: Mapping[str, Any], key: str, choice: type[ChoiceT], *, under: KeyPath = ()
) -> Iterator[tuple[KeyPath, ChoiceT]]:
    """Yield the items of the array ``key`` in ``table``, each with its path. Items that are invalid by themselves are left out. ``under``: the path
    of ``table`` in the scenario.
    """
    for index, item in enumerate(as_items(table.get(key))):
        if found := valid(choice, item):
            yield (*under, key, index), found


def list_servers(replicas: int) -> dict[str, str]:
    """Return the role of each server, ``primary`` or ``replica``, by its name."""
    return {"primary": "primary"} | {f"replica-{number}": "replica" for number in range(1, replicas + 1)}


def make_kind_issue(path: KeyPath, kind: str, kinds: Collection[str], *, why: str = "") -> ValidationIssue:
    """Return the issue of the choice at ``path``, whose kind is not among ``kinds``; ``why``: the reason, where it is known."""
    allowed = f"expected one of {', '.join(kinds)}{did_you_mean(kind, kinds)}" if kinds else "leave it out"
    return ValidationIssue((*path, "kind"), f" is {show_value(kind)}{why}; {allowed}")


def make_target_issue(path: KeyPath, target: str, targets: Sequence[str], *, why: str = "") -> ValidationIssue:
    """Return the issue of the choice at ``path``, whose target is not among ``targets``; ``why``: a remark on what is allowed."""
    allowed = f"one of {', '.join(targets)}{did_you_mean(target, targets)}"
    return ValidationIssue((*path, "on"), f" is {show_value(target)}; expected {allowed}{why}")
