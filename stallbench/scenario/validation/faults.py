"""What can be wrong with the faults that a scenario asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from stallbench.faults import Fault, FaultTarget, find_faults
from stallbench.scenario.model import FaultChoice, Phase
from stallbench.scenario.validation.issue import KeyPath, ValidationIssue, show_value
from stallbench.scenario.validation.model_issues import find_model_issues
from stallbench.scenario.validation.suggestion import did_you_mean

_OF_EVERY_KIND = ("kind", "on", "after", "for")


def find_fault_issues(
    phases: Sequence[Mapping[str, Any]],
    database: Mapping[str, Any],
    *,
    engine: str,
    replicas: int,
    workers: int,
    producers: int,
    has_scheduler: bool,
) -> Iterator[ValidationIssue]:
    """Go through the faults of ``phases`` as the file gives them; what is wrong with a common key by itself is told elsewhere."""
    places = {**_list_targets(replicas, workers, producers), "scheduler": ["scheduler"] if has_scheduler else []}
    for path, phase, choice in _sound_choices(phases):
        kinds = {name: kind for name, kind in find_faults().items() if engine in kind.engines}
        kind = find_faults().get(choice.kind)
        if kind is None or choice.kind not in kinds:
            not_there = f", which does not exist on {engine}" if kind else ""
            allowed = f"one of {', '.join(kinds)}{did_you_mean(choice.kind, kinds)}"
            yield ValidationIssue((*path, "kind"), f" is {show_value(choice.kind)}{not_there}; expected {allowed}")
            continue
        yield from find_model_issues(kind.options_type, choice.options, under=path, of=choice.kind, also_allowed=_OF_EVERY_KIND)
        yield from _find_target_issues(path, choice, kind, places)
        yield from _find_timing_issues(path, choice, phase)
        if kind.needs_of_database and database.get(kind.needs_of_database[0]) is None:
            key, allowed = kind.needs_of_database
            yield ValidationIssue(("database", key), f" is missing, and {choice.kind} needs it; expected {allowed}")


def _list_targets(replicas: int, workers: int, producers: int) -> dict[FaultTarget, list[str]]:
    names = [f"replica-{number}" for number in range(1, replicas + 1)]
    return {
        "server": ["primary", *names],
        "primary": ["primary"],
        "replica": names,
        "link": [f"replication-{name}" for name in names],
        "worker": [*(["workers"] if workers else []), *(f"worker-{number}" for number in range(1, workers + 1))],
        "producer": [*(["producers"] if producers else []), *(f"producer-{number}" for number in range(1, producers + 1))],
    }


def _sound_choices(phases: Sequence[Mapping[str, Any]]) -> Iterator[tuple[KeyPath, Mapping[str, Any], FaultChoice]]:
    for index, phase in enumerate(phases):
        faults = phase.get("faults")
        for number, choice in enumerate(faults if isinstance(faults, list) else []):
            try:
                yield ("phases", index, "faults", number), phase, FaultChoice.model_validate(choice)
            except ValidationError:
                continue


def _find_target_issues(
    path: KeyPath, choice: FaultChoice, kind: type[Fault[Any]], places: Mapping[FaultTarget, Sequence[str]]
) -> Iterator[ValidationIssue]:
    fit = [name for place in kind.places for name in places[place]]
    if choice.on not in fit:
        there_is = (
            f"one of {', '.join(fit)}{did_you_mean(choice.on, fit)}" if fit else f"a {' or '.join(kind.places)}; there is none"
        )
        yield ValidationIssue((*path, "on"), f" is {show_value(choice.on)}; expected {there_is}")


def _find_timing_issues(path: KeyPath, choice: FaultChoice, phase: Mapping[str, Any]) -> Iterator[ValidationIssue]:
    try:
        duration_s = Phase.model_validate({**phase, "faults": [], "longrunners": []}).duration_s
    except ValidationError:
        return
    if choice.after_s >= duration_s:
        problem = f" is {choice.after_s:g} s, and the phase is over after {duration_s:g} s; expected less"
        yield ValidationIssue((*path, "after"), problem)
    elif choice.for_s is not None and choice.after_s + choice.for_s > duration_s:
        problem = f" is {choice.for_s:g} s, which ends after the phase does; expected at most {duration_s - choice.after_s:g} s, or none"
        yield ValidationIssue((*path, "for"), problem)
