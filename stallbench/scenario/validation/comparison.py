"""Validates the section ``[comparison]``: its measures, phases and variants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stallbench.base.validation_issue import KeyPath, ValidationIssue, show_value
from stallbench.measures import OF_THE_RUN, measure_of
from stallbench.scenario.expectation import require_metric
from stallbench.scenario.model import CONTROL
from stallbench.scenario.validation.expectations import find_named_phase_issues
from stallbench.scenario.validation.raw_scenario import RawScenario, as_items, as_table
from stallbench.suggestion import did_you_mean

_PATH: KeyPath = ("comparison",)
_JUDGED_BY: KeyPath = ("judged_by",)


def find_comparison_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find the issues of a comparison's phases, columns and published figures, and of what a variant is judged by."""
    comparison = content.table("comparison")
    yield from find_named_phase_issues(_JUDGED_BY, content.table("judged_by"), content.measured)
    yield from _find_reference_issues(content)
    yield from find_named_phase_issues(_PATH, comparison, content.measured)
    for index, column in enumerate(as_items(comparison.get("columns"))):
        yield from _find_column_issues((*_PATH, "columns", index), column, content.measured)
    known = [CONTROL, *content.variants]
    for where, figures in as_table(comparison.get("published")).items():
        for name in as_table(figures):
            if name not in known:
                allowed = f"one of {', '.join(known)}{did_you_mean(name, known)}"
                yield ValidationIssue((*_PATH, "published", where, name), f": there is no such variant; expected {allowed}")


def find_overlay_issues(variants: Mapping[str, Any]) -> list[str]:
    """Return a line for each variant that cannot take part in a comparison.

    The reason is a reserved name, a comparison of its own, or a comparison with itself.
    """
    issues = []
    for name, overlay in variants.items():
        if name == CONTROL:
            issues.append(f"variants.{CONTROL}: this name means the scenario without a variant; expected another name")
        if isinstance(overlay, dict) and "comparison" in overlay:
            found = show_value(overlay["comparison"])
            issues.append(
                f"variants.{name}.comparison is {found}; a comparison covers all variants; expected at the top of the file only"
            )
        if as_table(as_table(overlay).get("judged_by")).get("reference") == name:
            issues.append(
                f"variants.{name}.judged_by.reference is {show_value(name)}, the variant itself; expected another variant"
            )
    return issues


def _find_reference_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    name = content.table("judged_by").get("reference")
    if isinstance(name, str) and name not in content.variants:
        known = ", ".join(content.variants) or "none, because the file has no variants"
        what_to_do = (
            "leave it out to mean the scenario without a variant"
            if name == CONTROL
            else f"expected one of {known}{did_you_mean(name, content.variants)}"
        )
        yield ValidationIssue((*_JUDGED_BY, "reference"), f" is {show_value(name)}, which is not a variant; {what_to_do}")


def _find_column_issues(path: KeyPath, column: Mapping[str, Any], measured: Mapping[str, bool]) -> Iterator[ValidationIssue]:
    metric = column.get("metric")
    if not isinstance(metric, str):
        return
    measure = measure_of(metric)
    if metric not in OF_THE_RUN:
        try:
            require_metric(metric)
        except ValueError as error:
            yield ValidationIssue((*path, "metric"), f" is {show_value(metric)}; {error}")
        yield from find_named_phase_issues(path, column, measured)
    if column.get("phase") and (metric in OF_THE_RUN or (measure and measure.is_of_run)):
        problem = f" is given, but {metric} is measured over the whole run; leave it out"
        yield ValidationIssue((*path, "phase"), problem)
