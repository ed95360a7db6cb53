"""What is compared: a metric in a phase, or a figure of the whole run, and which of two values is the better one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from stallbench.measures import MEASURES
from stallbench.scenario.model import ComparisonColumn, Scenario

EXECUTED_AGAIN = "re_executed.count"
EXECUTIONS_PER_JOB = "executions.per_job"
LOST = "lost.count"
REFUSED = "refused_in_all.count"
ORDER_P99 = "order_diff.p99"
HELD_OUT = "held_out_s.total"
OF_THE_RUN: Mapping[str, str] = {
    EXECUTED_AGAIN: "jobs executed more than once",
    LOST: "jobs that nobody has and nobody did",
    REFUSED: "jobs that a full queue did not take, the backlog included",
    EXECUTIONS_PER_JOB: "executions for each job that was executed; 1 if none was repeated",
}
"""Figures that only a whole run has, beside `stallbench.measures`, and their meanings."""

Better = Literal["higher", "lower"]
Role = Literal["ranked", "expectation", "held_out", "cost", "health"]


class Subject(BaseModel):
    """One thing that every run has a value of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    """One of `stallbench.measures`, or of `OF_THE_RUN`."""
    phase: str | None = None
    """The whole run if none."""
    relative_to: str | None = None
    """A phase: the value is then the ratio to the same metric in it."""
    better: Better = "lower"
    role: Role
    """``ranked``: what variants are ranked by. ``expectation``: what the scenario expects something of. ``cost``: what a mitigation may cost.
    ``held_out``: `HELD_OUT` in the ranked metric's phase. ``health``: the ranked metric before anything went wrong; never shown."""

    @property
    def key(self) -> str:
        """Its name in files, one line that a user can read too."""
        return f"{self.name}{f' / {self.relative_to}' if self.relative_to else ''}"

    @property
    def name(self) -> str:
        """The metric and where; what it is relative to stands beside its value."""
        return f"{self.metric} in {self.phase}" if self.phase else self.metric

    @property
    def meaning(self) -> str:
        """What the metric is, in words."""
        if self.metric == HELD_OUT:
            return (
                "seconds from the phase's beginning until it has fallen behind for good: more than a second's worth of jobs waits"
            )
        of_phases = MEASURES.get(self.metric.partition(".")[0])
        return OF_THE_RUN.get(self.metric) or (of_phases.meaning if of_phases else "")


def choose_subjects(scenarios: Sequence[Scenario]) -> tuple[Subject, ...]:
    """Return what is compared in runs of ``scenarios``, the first of which is the scenario without a variant.

    First what is ranked: what ``[comparison]`` says, else the latency of jobs in the first phase that has a longrunner or a fault, for that is
    what a user feels of it, else what the first expectation is of. Then what the scenario or a variant expects something of, then what a
    mitigation may cost.
    """
    control = scenarios[0]
    expected = [_of_expectation(e.metric, e.phase, e.relative_to) for scenario in scenarios for e in scenario.expect]
    baseline = find_baseline(control)
    costs = [_of_phase(metric, baseline, "cost") for metric in ("completed.rate", "claim_ms.p50", "wal_bytes.rate")]
    costs += [Subject(metric=metric, role="cost") for metric in (*OF_THE_RUN, ORDER_P99)]
    costs += [subject_of(column) for column in control.comparison.columns] if control.comparison else []
    ranked = _choose_ranked(control, expected)
    return tuple(
        _without_repetition(
            [ranked, *_find_health(ranked, baseline), *expected, *_find_time_to_saturation(ranked, baseline), *costs]
        )
    )


def subject_of(column: ComparisonColumn) -> Subject:
    """Return what a column of the comparison's own table shows."""
    return _of_phase(column.metric, column.phase, "cost")


def find_baseline(scenario: Scenario) -> str:
    """Return the name of the first measured phase; a scenario that can be run has one."""
    return next(phase.name for phase in scenario.phases if phase.measured)


def _choose_ranked(control: Scenario, expected: Sequence[Subject]) -> Subject:
    if choice := control.comparison:
        return Subject(
            metric=choice.metric, phase=choice.phase, relative_to=choice.relative_to, better=choice.better, role="ranked"
        )
    disturbed = next((phase.name for phase in control.phases if phase.measured and (phase.faults or phase.longrunners)), None)
    if disturbed is None and expected:
        return expected[0].model_copy(update={"role": "ranked"})
    return Subject(metric="latency_ms.p95", phase=disturbed, role="ranked")


def _find_health(ranked: Subject, baseline: str) -> Iterator[Subject]:
    """Find what the ranked metric is to be held against: its value at the baseline. A ratio to the baseline needs none."""
    if ranked.phase not in (None, baseline) and ranked.relative_to is None:
        yield ranked.model_copy(update={"phase": baseline, "role": "health"})


def _find_time_to_saturation(ranked: Subject, baseline: str) -> Iterator[Subject]:
    """Find for how long a variant delays what the ranked phase does to it; there is none without a phase that may do harm."""
    if ranked.phase not in (None, baseline):
        yield Subject(metric=HELD_OUT, phase=ranked.phase, better="higher", role="held_out")


def _of_expectation(metric: str, phase: str | None, relative_to: str | None) -> Subject:
    return Subject(metric=metric, phase=phase, relative_to=relative_to, better=_better(metric), role="expectation")


def _of_phase(metric: str, phase: str | None, role: Role) -> Subject:
    return Subject(metric=metric, phase=phase, better=_better(metric), role=role)


def _better(metric: str) -> Better:
    return "lower" if metric in OF_THE_RUN else MEASURES[metric.partition(".")[0]].better


def _without_repetition(subjects: Iterable[Subject]) -> Iterator[Subject]:
    """Leave out what has the same values as one before; the health of the ranked metric stays, for it is not shown."""
    seen: set[str] = set()
    for subject in subjects:
        if subject.role == "health":
            yield subject
        elif subject.key not in seen:
            seen.add(subject.key)
            yield subject
