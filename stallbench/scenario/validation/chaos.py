"""Validates the combined faults of a phase: whether each kind can be combined, and has a partner, and whether there is time for two faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stallbench.base.validation_issue import KeyPath, ValidationIssue, show_value
from stallbench.injection.choices import ChaosKind
from stallbench.injection.faults import Fault, find_faults
from stallbench.scenario.chaos import combination_of, count_intervals, find_pairs, make_fault
from stallbench.scenario.sections import Chaos, Phase
from stallbench.scenario.validation.faults import find_choice_issues, list_targets
from stallbench.scenario.validation.injections import make_kind_issue
from stallbench.scenario.validation.raw_scenario import RawScenario, valid


def find_chaos_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find the issues of the combined faults, in all phases that are valid by themselves."""
    for index, phase in enumerate(content.items("phases")):
        chaos = valid(Chaos, phase.get("chaos"))
        if chaos is not None:
            yield from _find_phase_issues(("phases", index), phase, chaos)
            if content.database and content.workers and content.producers:
                yield from _find_kinds_issues(("phases", index, "chaos", "kinds"), chaos, content)


def _find_phase_issues(path: KeyPath, phase: Mapping[str, Any], chaos: Chaos) -> Iterator[ValidationIssue]:
    if "faults" in phase:
        yield ValidationIssue((*path, "chaos"), " is given beside faults; expected one of the two")
    if phase.get("until", "duration") != "duration":
        problem = f" is {show_value(phase['until'])}, but the combined faults are planned for the whole duration; leave it out"
        yield ValidationIssue((*path, "until"), problem)
    if "jobs" in phase:
        problem = f" is {show_value(phase['jobs'])}, but the combined faults are planned for the duration; leave it out"
        yield ValidationIssue((*path, "jobs"), problem)
    around = valid(Phase, {**phase, "faults": [], "longrunners": []})
    if around and not count_intervals(around.duration_s, chaos.every_s):
        problem = (
            f" is {chaos.every_s:g} s, but the phase ends after {around.duration_s:g} s; expected at most that, or a longer phase"
        )
        yield ValidationIssue((*path, "chaos", "every"), problem)


def _find_kinds_issues(path: KeyPath, chaos: Chaos, content: RawScenario) -> Iterator[ValidationIssue]:
    assert content.database
    kinds = {
        name: kind
        for name, kind in find_faults().items()
        if content.database.engine in kind.engines and kind.combination is not None
    }
    issues = [
        issue for index, kind in enumerate(chaos.kinds) for issue in _find_kind_issues((*path, index), kind, kinds, content)
    ]
    yield from issues
    if len(chaos.kinds) < 2:
        yield ValidationIssue(path, f' has {len(chaos.kinds)}; expected at least two, like kinds = ["latency", "kill"]')
    elif not issues:
        yield from _find_lonely_kinds(path, chaos, kinds)


def _find_kind_issues(
    path: KeyPath, kind: ChaosKind, kinds: Mapping[str, type[Fault[Any]]], content: RawScenario
) -> Iterator[ValidationIssue]:
    if kind.kind not in kinds:
        known = find_faults().get(kind.kind)
        why = "" if known is None else ", which cannot be combined" if known.combination is None else ", which does not exist on "
        engine = content.database.engine if content.database and why.endswith(" ") else ""
        yield make_kind_issue(path, kind.kind, kinds, why=f"{why}{engine}")
        return
    if misplaced := [key for key in ("after", "for") if key in kind.options]:
        problem = " is given, but the schedule decides when combined faults begin and end; leave it out"
        yield from (ValidationIssue((*path, key), problem) for key in misplaced)
        return
    fault = make_fault(kind, after_s=0, for_s=1)
    yield from find_choice_issues(path, fault, kinds[kind.kind], list_targets(content), content, keys=kind.list_keys())


def _find_lonely_kinds(path: KeyPath, chaos: Chaos, kinds: Mapping[str, object]) -> Iterator[ValidationIssue]:
    paired = {kind.kind for pair in find_pairs(chaos.kinds) for kind in pair}
    for index, kind in enumerate(chaos.kinds):
        if kind.kind not in paired:
            own = combination_of(kind.kind)
            partners = [name for name in kinds if combination_of(name).fits(own)]
            problem = f" is {show_value(kind.kind)}, which can be combined with none of the others; add one of {', '.join(partners)}, or leave it out"
            yield ValidationIssue((*path, index, "kind"), problem)
