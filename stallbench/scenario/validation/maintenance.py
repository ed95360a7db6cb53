"""What can be wrong with the maintenance that a scenario asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from stallbench.maintenance import find_maintenance_kinds
from stallbench.scenario.model import MaintenanceChoice
from stallbench.scenario.validation.issue import KeyPath, ValidationIssue, show_value
from stallbench.scenario.validation.model_issues import find_model_issues
from stallbench.scenario.validation.suggestion import did_you_mean

_OF_EVERY_KIND = ("kind", "on")


def find_maintenance_issues(items: Sequence[Mapping[str, Any]], *, engine: str, replicas: int) -> Iterator[ValidationIssue]:
    """Go through ``maintenance`` as the file gives it; what is wrong with a common key by itself is told elsewhere."""
    kinds = {name: kind for name, kind in find_maintenance_kinds().items() if engine in kind.engines}
    for index, item in enumerate(items):
        try:
            choice = MaintenanceChoice.model_validate(item)
        except ValidationError:
            continue
        path: KeyPath = ("maintenance", index)
        kind = kinds.get(choice.kind)
        if kind is None:
            allowed = (
                f"one of {', '.join(kinds)}{did_you_mean(choice.kind, kinds)}"
                if kinds
                else f"none, for there is none on {engine}"
            )
            yield ValidationIssue((*path, "kind"), f" is {show_value(choice.kind)}; expected {allowed}")
            continue
        yield from find_model_issues(kind.options_type, choice.options, under=path, of=choice.kind, also_allowed=_OF_EVERY_KIND)
        fit = ["primary"] if "primary" in kind.roles else []
        fit += [f"replica-{number}" for number in range(1, replicas + 1)] if "replica" in kind.roles else []
        if choice.on not in fit:
            yield ValidationIssue(
                (*path, "on"), f" is {show_value(choice.on)}; expected one of {', '.join(fit)}{did_you_mean(choice.on, fit)}"
            )
