"""Reads the file of ``--expect``: ``[[expect]]`` tables as in a scenario, of measures that an observation has."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from stallbench.base.section import Section
from stallbench.errors import BadInputError
from stallbench.measure_definition import FromSamples
from stallbench.measures import MEASURES, measure_of
from stallbench.scenario.expectation import Expectation
from stallbench.scenario.toml import FileKind, ScenarioError, read_toml
from stallbench.scenario.validation.keys_and_values import find_key_and_value_issues

PHASE = "observed"
"""The only phase of an observation."""


_KIND = FileKind(
    name="a file of expectations",
    expected="a file of [[expect]] tables, like queue.toml in docs/observe.md",
    guide="docs/observe.md describes its [[expect]] tables",
)


class ExpectationsFile(Section):
    """The content of the file."""

    expect: tuple[Expectation, ...] = Field(min_length=1, strict=False)


def read_expectations(path: Path) -> tuple[Expectation, ...]:
    """Return the expectations; raises `BadInputError` with a line for each issue."""
    shown = str(path)
    if not path.exists():
        raise BadInputError(f"--expect {shown}: there is no such file; give {_KIND.expected}")
    content = read_toml(path, f"--expect {shown}", _KIND)
    issues = [f"{shown}: {issue}" for issue in find_key_and_value_issues(ExpectationsFile, content)]
    if issues:
        raise ScenarioError(issues)
    found = ExpectationsFile.model_validate(content).expect
    for number, one in enumerate(found):
        where = f"{shown}: expect[{number}]"
        measure = measure_of(one.metric)
        if measure is None or not isinstance(measure.source, FromSamples):
            sampled = ", ".join(each.name for each in MEASURES.values() if isinstance(each.source, FromSamples))
            issues.append(f"{where}.metric is {one.metric!r}, which only a run of the bench has; expected one of {sampled}")
        if one.metric.endswith(".per_job"):
            issues.append(f"{where}.metric is {one.metric!r}; an observation counts no completed jobs: choose another statistic")
        if one.phase not in (None, PHASE):
            issues.append(f"{where}.phase is {one.phase!r}; an observation has one phase, {PHASE!r}: leave it out")
        if one.relative_to is not None:
            issues.append(f"{where}.relative_to is {one.relative_to!r}; an observation has no other phase: give the bound itself")
    if issues:
        raise ScenarioError(issues)
    return found
