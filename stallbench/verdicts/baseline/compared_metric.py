"""The subjects of a comparison: a metric in a phase, or a figure of the whole run, and whether a higher or a lower value is better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from stallbench.measure_definition import Better
from stallbench.measures import MEASURES, OF_THE_RUN, has_direction
from stallbench.scenario.expectation import ComparisonColumn, RankedBy
from stallbench.scenario.model import Scenario

ORDER_P99 = "order_diff.p99"
TIME_TO_SATURATION = "time_to_saturation_s"

Role = Literal["ranked", "expectation", "time_to_saturation", "cost", "shown", "baseline"]


class ComparedMetric(BaseModel):
    """One thing that every run has a value of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    """One of `stallbench.measures`, or of `OF_THE_RUN`."""
    phase: str | None = None
    """The whole run if none."""
    relative_to: str | None = None
    """A phase: the value is then the ratio to the same metric in it."""
    better: Better = "lower"
    undegraded: float | None = None
    """Its value without the problem, if the scenario declares one."""
    role: Role
    """``ranked``: what variants are ranked by. ``expectation``: what the scenario has an expectation of, or a single variant is judged by.
    ``cost``: what a mitigation may cost. ``shown``: the same, in a phase that is not free of the problem, so that it is no cost.
    ``time_to_saturation``: `TIME_TO_SATURATION` in the ranked metric's phase. ``baseline``: the ranked metric in the baseline; never shown."""

    @property
    def key(self) -> str:
        """Its name in files and tables."""
        return f"{self.name}{f' / {self.relative_to}' if self.relative_to else ''}"

    @property
    def name(self) -> str:
        """The metric and its phase, without what it is relative to."""
        return f"{self.metric} in {self.phase}" if self.phase else self.metric

    @property
    def meaning(self) -> str:
        """What the metric measures."""
        if self.metric == TIME_TO_SATURATION:
            return "seconds from the phase's start until the queue is saturated: from then on, more jobs wait than are enqueued in one second"
        of_phases = MEASURES.get(self.metric.partition(".")[0])
        return OF_THE_RUN.get(self.metric) or (of_phases.meaning if of_phases else "")


def choose_subjects(scenarios: Sequence[Scenario]) -> tuple[ComparedMetric, ...]:
    """Return what is compared in runs of ``scenarios``, the first of which is the scenario without a variant.

    The ranked subject comes first: what ``[comparison]`` says; else the latency of jobs in the first phase that has a longrunner or a
    fault, because users notice it; else the metric of the first expectation of which one direction is better. Then come the metrics that single
    variants are judged by, those of all expectations, and the costs.
    """
    control = scenarios[0]
    judged = [subject for scenario in scenarios for subject in [judged_subject_of(scenario)] if subject]
    expected = [_of_expectation(e.metric, e.phase, e.relative_to) for scenario in scenarios for e in scenario.expect]
    baseline = find_baseline(control)
    ranked = _choose_ranked(control, expected)
    role: Role = "shown" if ranked.phase == baseline else "cost"
    costs = [_of_phase(metric, baseline, role) for metric in ("completed.rate", "claim_ms.p50", "wal_bytes.rate")]
    costs += [ComparedMetric(metric=metric, role="cost") for metric in (*OF_THE_RUN, ORDER_P99)]
    costs += [subject_of(column) for column in control.comparison.columns] if control.comparison else []
    of_baseline = [subject for each in (ranked, *judged) for subject in _find_baseline_subject(each, baseline)]
    return tuple(
        _without_repetition([ranked, *of_baseline, *judged, *expected, *_find_time_to_saturation(ranked, baseline), *costs])
    )


def judged_subject_of(scenario: Scenario) -> ComparedMetric | None:
    """Return what decides whether a variant helps, if that is not the ranked subject."""
    return _of_choice(scenario.judged_by, "expectation") if scenario.judged_by else None


def reference_of(scenario: Scenario) -> str | None:
    """Return the name of the variant whose problem a variant is meant against; none if that is the scenario without a variant."""
    return scenario.judged_by.reference if scenario.judged_by else None


def subject_of(column: ComparisonColumn) -> ComparedMetric:
    """Return what a column of the comparison's own table shows."""
    return _of_phase(column.metric, column.phase, "cost")


def find_baseline(scenario: Scenario) -> str:
    """Return the name of the first measured phase; a scenario that can be run has one."""
    return next(phase.name for phase in scenario.phases if phase.measured)


def _choose_ranked(control: Scenario, expected: Sequence[ComparedMetric]) -> ComparedMetric:
    if choice := control.comparison:
        return _of_choice(choice, "ranked")
    disturbed = next((phase.name for phase in control.phases if phase.measured and (phase.faults or phase.longrunners)), None)
    directed = next((subject for subject in expected if has_direction(subject.metric)), None)
    if disturbed is None and directed:
        return directed.model_copy(update={"role": "ranked"})
    return ComparedMetric(metric="latency_ms.p95", phase=disturbed, role="ranked")


def _of_choice(choice: RankedBy, role: Role) -> ComparedMetric:
    return ComparedMetric(
        metric=choice.metric,
        phase=choice.phase,
        relative_to=choice.relative_to,
        better=choice.better,
        undegraded=choice.undegraded,
        role=role,
    )


def _find_baseline_subject(judged: ComparedMetric, baseline: str) -> Iterator[ComparedMetric]:
    """Yield the metric in the baseline, from which degradation is measured.

    A ratio to the baseline needs none, and neither does a metric whose value without the problem is declared.
    """
    if judged.phase not in (None, baseline) and judged.relative_to is None and judged.undegraded is None:
        yield judged.model_copy(update={"phase": baseline, "role": "baseline"})


def _find_time_to_saturation(ranked: ComparedMetric, baseline: str) -> Iterator[ComparedMetric]:
    """Yield the time to saturation in the ranked phase, unless that is the baseline or the whole run."""
    if ranked.phase not in (None, baseline):
        yield ComparedMetric(metric=TIME_TO_SATURATION, phase=ranked.phase, better="higher", role="time_to_saturation")


def _of_expectation(metric: str, phase: str | None, relative_to: str | None) -> ComparedMetric:
    return ComparedMetric(metric=metric, phase=phase, relative_to=relative_to, better=_better(metric), role="expectation")


def _of_phase(metric: str, phase: str | None, role: Role) -> ComparedMetric:
    return ComparedMetric(metric=metric, phase=phase, better=_better(metric), role=role)


def _better(metric: str) -> Better:
    return "lower" if metric in OF_THE_RUN else MEASURES[metric.partition(".")[0]].better


def _without_repetition(subjects: Iterable[ComparedMetric]) -> Iterator[ComparedMetric]:
    """Leave out subjects with the same values as an earlier one; the one in the baseline stays, because it is not shown."""
    seen: set[str] = set()
    for subject in subjects:
        if subject.role == "baseline":
            yield subject
        elif subject.key not in seen:
            seen.add(subject.key)
            yield subject
