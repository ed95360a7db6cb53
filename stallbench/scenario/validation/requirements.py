"""Validates the section ``[[require]]``: what is required must be what the phases can show, and what a run can decide before its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.base.validation_issue import KeyPath, ValidationIssue, show_value
from stallbench.scenario.requirement import ABORTING, PARTS
from stallbench.scenario.validation.raw_scenario import RawScenario, as_table


def find_requirement_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find requirements that no run of these phases could meet, and an ``abort`` that nothing could cause."""
    judge = content.raw.get("judge")
    if judge == "reproduced":
        return
    given = list(_list_names(content.raw.get("require")))
    if judge == "survives" and not given:
        given = [(("judge",), "survives", {})]
    for path, name, table in given:
        yield from _find_phase_issues(path, name, content)
        if table.get("abort") is True:
            yield from _find_abort_issues((*path[:-1], "abort"), name, content)


def _list_names(required: object) -> Iterator[tuple[KeyPath, str, dict[str, Any]]]:
    """Yield the path, the name and the table of each requirement, if it is valid by itself."""
    if isinstance(required, str):
        if required in PARTS:
            yield ("require",), required, {}
        return
    for index, each in enumerate(required if isinstance(required, list) else []):
        name = each if isinstance(each, str) else as_table(each).get("outcome")
        path: KeyPath = ("require", index) if isinstance(each, str) else ("require", index, "outcome")
        if isinstance(name, str) and name in PARTS:
            yield path, name, as_table(each)


def _find_phase_issues(path: KeyPath, name: str, content: RawScenario) -> Iterator[ValidationIssue]:
    phases = content.items("phases")
    disturbed = [index for index, phase in enumerate(phases) if any(phase.get(key) for key in ("faults", "longrunners", "chaos"))]
    parts = {part for known, parts in PARTS.items() if known == name for part in parts}
    if not disturbed or not parts & {"recovery", "effect"}:
        return
    if all(phase.get("measured") is False for phase in phases[: disturbed[0]]):
        first = show_value(phases[disturbed[0]].get("name"))
        problem = f", but no phase is measured before {first}, the first with a fault; add one, with which it is compared"
        yield ValidationIssue(path, f" is {show_value(name)}{problem}")
    if "recovery" in parts and disturbed[-1] == len(phases) - 1:
        last = show_value(phases[-1].get("name"))
        problem = f", but no phase follows {last}, the last with a fault; add one, in which the queue can come back to normal"
        yield ValidationIssue(path, f" is {show_value(name)}{problem}")


def _find_abort_issues(path: KeyPath, name: str, content: RawScenario) -> Iterator[ValidationIssue]:
    if name not in ABORTING:
        yield ValidationIssue(
            path, f" is true, but {show_value(name)} is decided only at the end of a run; expected one of {', '.join(ABORTING)}"
        )
    elif content.table("collectors").get("enabled") is False:
        yield ValidationIssue(path, " is true, but collectors.enabled is false, so that nothing is known of the queue meanwhile")
