"""What can be wrong with an expectation: an unknown metric, a phase that is not measured, bounds that nothing meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stallbench.measures import WHOLE_RUN, measure_of, metric_names
from stallbench.scenario.validation.issue import KeyPath, ValidationIssue, show_value
from stallbench.scenario.validation.suggestion import did_you_mean


def find_expectation_issues(expect: Sequence[Mapping[str, Any]], measured: Mapping[str, bool]) -> Iterator[ValidationIssue]:
    """Go through the expectations as the file gives them.

    ``measured``: of each phase, by name, whether it is measured. Values of a wrong type are not told of here.
    """
    for index, expectation in enumerate(expect):
        path: KeyPath = ("expect", index)
        yield from find_metric_issues(path, expectation.get("metric"))
        yield from find_phase_issues(path, expectation, measured)
        if expectation:
            yield from _find_bound_issues(path, expectation)


def find_metric_issues(path: KeyPath, metric: object) -> Iterator[ValidationIssue]:
    """Find a name that no metric has; ``path`` is the table's that has it as ``metric``."""
    if isinstance(metric, str) and metric not in metric_names():
        yield ValidationIssue((*path, "metric"), f" is {show_value(metric)}; expected {_describe_allowed_metrics(metric)}")


def find_phase_issues(path: KeyPath, table: Mapping[str, Any], measured: Mapping[str, bool]) -> Iterator[ValidationIssue]:
    """Find what is wrong with ``phase`` and ``relative_to`` of the ``table`` at ``path``; ``measured`` as above."""
    for key in ("phase", "relative_to"):
        name = table.get(key)
        if isinstance(name, str) and measured:
            yield from _find_phase_name_issues((*path, key), name, measured)
    phase, other = table.get("phase"), table.get("relative_to")
    if isinstance(phase, str) and phase == other:
        yield ValidationIssue((*path, "relative_to"), f" is {show_value(other)}, the phase itself; expected another phase")
    measure = measure_of(str(table.get("metric", "")))
    for key in ("phase", "relative_to"):
        if measure and measure.is_of_run and table.get(key):
            yield ValidationIssue((*path, key), f" is given, but {measure.name} is of the whole run; leave it out")


def _describe_allowed_metrics(metric: str) -> str:
    measure = measure_of(metric)
    if measure:
        return f"{measure.name} with one of {', '.join(f'.{statistic}' for statistic in measure.statistics)}"
    return f"a metric that docs/add-a-scenario.md lists{did_you_mean(metric, metric_names())}"


def _find_phase_name_issues(path: KeyPath, name: str, measured: Mapping[str, bool]) -> Iterator[ValidationIssue]:
    allowed = [phase for phase, counts in measured.items() if counts and phase != WHOLE_RUN]
    shown = show_value(name)
    if name == WHOLE_RUN:
        what_to_do = "leave it out to mean the whole run" if path[-1] == "phase" else f"expected one of {', '.join(allowed)}"
        yield ValidationIssue(path, f" is {shown}, which is no phase; {what_to_do}")
    elif name not in measured:
        yield ValidationIssue(path, f" is {shown}; expected one of {', '.join(allowed)}{did_you_mean(name, allowed)}")
    elif not measured[name]:
        yield ValidationIssue(path, f" is {shown}, which is not measured; expected one of {', '.join(allowed)}")


def _find_bound_issues(path: KeyPath, expectation: Mapping[str, Any]) -> Iterator[ValidationIssue]:
    if "at_least" not in expectation and "at_most" not in expectation:
        yield ValidationIssue(path, " has no bound; expected at_least, at_most or both")
        return
    at_least, at_most = (expectation.get(key) for key in ("at_least", "at_most"))
    if isinstance(at_least, int | float) and isinstance(at_most, int | float) and at_least > at_most:
        yield ValidationIssue((*path, "at_least"), f" is {at_least}, more than at_most, which is {at_most}; nothing can be both")
