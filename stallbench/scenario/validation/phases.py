"""Validates all phases together: equal names, no measured phase, more than a day in total, a phase that never ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stallbench.base.validation_issue import ValidationIssue, show_value
from stallbench.scenario.sections import Phase
from stallbench.scenario.validation.raw_scenario import RawScenario, valid

LONGEST_S = 24 * 3600
"""The longest run is a day. A longer one is probably a typing error."""


def find_phase_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find the issues that concern several phases, or a phase and the load."""
    phases = content.items("phases")
    times = Counter(phase["name"] for phase in phases if isinstance(phase.get("name"), str))
    for index, phase in enumerate(phases):
        name = phase.get("name")
        if isinstance(name, str) and times[name] > 1:
            problem = f" is {show_value(name)}, which is also the name of another phase; expected a different name for each"
            yield ValidationIssue(("phases", index, "name"), problem)
    yield from _find_endless_phases(content)
    if phases and all(phase.get("measured") is False for phase in phases):
        yield ValidationIssue(("phases",), ": none is measured; leave out `measured = false` in at least one")
    together_s = sum(each.duration_s for phase in phases if (each := valid(Phase, phase)))
    if together_s > LONGEST_S:
        yield ValidationIssue(("phases",), f" take {together_s:,.0f} s together; expected at most {LONGEST_S:,} s, a day")


def _find_endless_phases(content: RawScenario) -> Iterator[ValidationIssue]:
    producers = content.table("producers")
    load = next((key for key in ("rate", "capacity_share") if producers.get(key)), None)
    drained = next((index for index, phase in enumerate(content.items("phases")) if phase.get("until") == "drained"), None)
    if load and drained is not None:
        problem = (
            f' is "drained", but producers.{load} is {show_value(producers[load])}, so the queue is never empty for long; '
            'expected "caught_up", or rate = 0'
        )
        yield ValidationIssue(("phases", drained, "until"), problem)
