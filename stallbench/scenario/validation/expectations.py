"""Validates the phases that expectations name: each must exist and be measured. Periodic jobs, if one expects them, must be those of a library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stallbench.base.validation_issue import KeyPath, ValidationIssue, show_value
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.libraries import find_libraries
from stallbench.libraries.definition import PERIODIC
from stallbench.measures import WHOLE_RUN
from stallbench.scenario.validation.raw_scenario import RawScenario
from stallbench.suggestion import did_you_mean

_OF_PERIODIC_JOBS = "fired."


def find_expectation_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find the phases that expectations name and that do not exist or are not measured, and expected periodic jobs that nothing inserts."""
    for index, expectation in enumerate(content.items("expect")):
        yield from find_named_phase_issues(("expect", index), expectation, content.measured)
        metric = expectation.get("metric")
        if isinstance(metric, str) and metric.startswith(_OF_PERIODIC_JOBS) and (problem := _find_lack_of_periodic_jobs(content)):
            yield ValidationIssue(("expect", index, "metric"), f" is {show_value(metric)}, {problem}")


def _find_lack_of_periodic_jobs(content: RawScenario) -> str:
    """Return why no scheduler inserts a periodic job, and what to do; empty if one does, or if the queue is not valid."""
    if content.queue is None or content.queue.options.get(PERIODIC):
        return ""
    libraries = find_libraries()
    library = libraries.get(content.queue.kind.removeprefix(LIBRARY_PREFIX))
    if library is not None and (option := library.options.get(PERIODIC)):
        return f"but [queue] asks for no periodic job; add {PERIODIC} = {option.one_of[-1]} to it"
    able = ", ".join(f"{LIBRARY_PREFIX}{name}" for name, each in libraries.items() if each.periodic_jobs)
    return f"but {content.queue.kind} has no periodic jobs; set queue.kind to one of {able}, and queue.{PERIODIC}"


def find_named_phase_issues(path: KeyPath, table: Mapping[str, Any], measured: Mapping[str, bool]) -> Iterator[ValidationIssue]:
    """Find the issues of the phases that the ``table`` at ``path`` names.

    ``measured``: of each phase, by name, whether it is measured.
    """
    for key in ("phase", "relative_to"):
        name = table.get(key)
        if isinstance(name, str) and measured:
            yield from _find_name_issues((*path, key), name, measured)


def _find_name_issues(path: KeyPath, name: str, measured: Mapping[str, bool]) -> Iterator[ValidationIssue]:
    allowed = [phase for phase, counts in measured.items() if counts and phase != WHOLE_RUN]
    shown = show_value(name)
    if name == WHOLE_RUN:
        what_to_do = "leave it out to mean the whole run" if path[-1] == "phase" else f"expected one of {', '.join(allowed)}"
        yield ValidationIssue(path, f" is {shown}, which is not a phase; {what_to_do}")
    elif name not in measured:
        yield ValidationIssue(path, f" is {shown}; expected one of {', '.join(allowed)}{did_you_mean(name, allowed)}")
    elif not measured[name]:
        yield ValidationIssue(path, f" is {shown}, which is not measured; expected one of {', '.join(allowed)}")
