"""What can be wrong with the section ``[comparison]``: an unknown metric or phase, a published figure of no variant."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from stallbench.comparison.subject import OF_THE_RUN
from stallbench.scenario.model import CONTROL
from stallbench.scenario.validation.expectations import find_metric_issues, find_phase_issues
from stallbench.scenario.validation.issue import KeyPath, ValidationIssue, show_value
from stallbench.scenario.validation.suggestion import did_you_mean

_PATH: KeyPath = ("comparison",)


def find_comparison_issues(
    comparison: Mapping[str, Any], measured: Mapping[str, bool], variants: Collection[str]
) -> Iterator[ValidationIssue]:
    """Go through the section as the file gives it; an empty one, as a missing one is, has no faults.

    ``measured``: of each phase, by name, whether it is measured. ``variants``: the names of the file's variants. Values of a wrong
    type are not told of here.
    """
    yield from find_metric_issues(_PATH, comparison.get("metric"))
    yield from find_phase_issues(_PATH, comparison, measured)
    columns = comparison.get("columns")
    for index, column in enumerate(columns) if isinstance(columns, list) else ():
        if isinstance(column, dict):
            yield from _find_column_issues((*_PATH, "columns", index), column, measured)
    published = comparison.get("published")
    known = [CONTROL, *variants]
    for where, figures in published.items() if isinstance(published, dict) else ():
        for name in figures if isinstance(figures, dict) else ():
            if name not in known:
                there_are = f"there are {', '.join(known)}{did_you_mean(name, known)}"
                yield ValidationIssue((*_PATH, "published", where, name), f": there is no such variant; {there_are}")


def _find_column_issues(path: KeyPath, column: Mapping[str, Any], measured: Mapping[str, bool]) -> Iterator[ValidationIssue]:
    if column.get("metric") not in OF_THE_RUN:
        yield from find_metric_issues(path, column.get("metric"))
        yield from find_phase_issues(path, column, measured)
    elif column.get("phase"):
        yield ValidationIssue((*path, "phase"), f" is given, but {column['metric']} is of the whole run; leave it out")


def find_overlay_issues(variants: Mapping[str, Any]) -> list[str]:
    """Return a line for each variant that cannot take part in a comparison: by its name, or because it wants one of its own."""
    faults = []
    for name, overlay in variants.items():
        if name == CONTROL:
            faults.append(f"variants.{CONTROL}: stands for the scenario without a variant; expected another name")
        if isinstance(overlay, dict) and "comparison" in overlay:
            found = show_value(overlay["comparison"])
            faults.append(
                f"variants.{name}.comparison is {found}; it is of all variants together: expected at the top of the file"
            )
    return faults
