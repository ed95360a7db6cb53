"""Compares a soak with earlier soaks of the same length (``--against``): what its last cycles show, and what drifts.

*At the end*: the median of the last cycles, of figures that are the queue's. *Drift*: by how many percent of its median a figure changes from
the first cycle to the last. A drift is compared only if it is significant and for the worse, because the slope of a figure that does not drift is noise.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stallbench.measure_definition import Better
from stallbench.measures import has_direction, measure_of
from stallbench.run.host_facts import read_host_facts
from stallbench.run.record import RunRecord, read_record
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.studies import regressions
from stallbench.studies.regressions import Measured, make_finding
from stallbench.studies.soak.drift import FEWEST_CYCLES, Drift
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.record import CycleRun, Figure, SoakRecord
from stallbench.verdicts.baseline.against import BaselineChoice, read_against
from stallbench.verdicts.baseline.baseline_file import BaselineVariant
from stallbench.verdicts.baseline.change import MetricComparison, ask
from stallbench.verdicts.baseline.comparability import (
    Conditions,
    find_conditions,
    require_same_conditions,
    require_same_cpus,
)
from stallbench.verdicts.baseline.compared_metric import ComparedMetric
from stallbench.verdicts.baseline.tolerance import DRIFT, Allowance, Tolerance
from stallbench.verdicts.check import Finding

LAST_CYCLES = 3
"""Their median is what a figure is at the end; fewer if the soak has fewer. A single cycle may have been disturbed."""
_HOUR_S = 3600.0
_DEPTH = "depth.last"


def name_soak(scenario: Scenario) -> str:
    """Return the name that the soaks of a scenario have in a baseline: its variant."""
    return scenario.variant or CONTROL


def find_soak_conditions(scenario: Scenario, for_s: float) -> Conditions:
    """Return what must be the same: load, phases, queue and servers, and the length of the soak."""
    return {**find_conditions(scenario), "for_s": for_s}


def require_comparable_soak(against: BaselineChoice, scenario: Scenario, for_s: float) -> None:
    """Raise `BadInputError` if a soak could not be compared with the baseline."""
    conditions = {name_soak(scenario): find_soak_conditions(scenario, for_s)}
    require_same_conditions(against.baseline, "soak", scenario.name, conditions)
    require_same_cpus(against.baseline, read_host_facts())


def find_last(record: SoakRecord) -> dict[ComparedMetric, float]:
    """Return what each figure of the queue is at the end; those of which neither higher nor lower is better are left out."""
    last = record.completed[-LAST_CYCLES:]
    found: dict[ComparedMetric, float] = {}
    for name, figure in _list_figures(last).items():
        if figure.phase and has_direction(figure.metric):
            values = [cycle.figures[name].value for cycle in last if name in cycle.figures]
            compared = ComparedMetric(metric=figure.metric, phase=figure.phase, better=_better(figure), role="cost")
            found[compared] = statistics.median(values)
    return found


def _list_figures(cycles: Sequence[CycleRun]) -> dict[str, Figure]:
    """Return one figure of each name: what was measured, and where."""
    return {name: figure for cycle in cycles for name, figure in cycle.figures.items()}


def find_drift_percent(record: SoakRecord, drifts: Mapping[str, Drift | None]) -> dict[ComparedMetric, float]:
    """Return by how many percent of its median each figure changes from the first cycle to the last; none with too few cycles for a test."""
    hours = sum(cycle.spent_s for cycle in record.completed) / _HOUR_S
    figures = _list_figures(record.completed)
    return {
        _drift_subject(name, figures[name]): 100 * drift.slope * hours / drift.level
        for name, drift in drifts.items()
        if drift and drift.level and drift.low is not None and _has_better(figures[name])
    }


def _drift_subject(name: str, figure: Figure) -> ComparedMetric:
    return ComparedMetric(metric=f"{DRIFT} of {name}", better=_better(figure), role="cost")


def _has_better(figure: Figure) -> bool:
    return bool(figure.process) or (bool(figure.phase) and has_direction(figure.metric))


def _better(figure: Figure) -> Better:
    measure = measure_of(figure.metric) if figure.phase else None
    return measure.better if measure else "lower"


def find_regressions(folder: SoakFolder, record: SoakRecord, drifts: Mapping[str, Drift | None]) -> tuple[Finding, ...]:
    """Return a finding for each figure, and what else is to be said; empty if the soak is not compared with a baseline."""
    against = read_against(folder.path)
    if against is None:
        return ()
    cycle = find_cycle_record(folder, record)
    what = f"the soak is {record.status}" if cycle else "no cycle has a record"
    is_missing = record.status != "completed" or cycle is None
    measured = Measured(
        variant=name_soak(record.scenario),
        missing=f"cannot be compared with the baseline: {what}" if is_missing else "",
        runs=[cycle] if cycle else [],
        conditions=lambda _: find_soak_conditions(record.scenario, record.for_s),
        ask=lambda known, other_cpus: _ask(record, drifts, against.tolerance, known, other_cpus),
    )
    return regressions.find_regressions(against, "soak", record.scenario.name, [measured], seed=record.scenario.seed)


def _ask(
    record: SoakRecord, drifts: Mapping[str, Drift | None], tolerance: Tolerance, known: BaselineVariant, other_cpus: str
) -> Iterator[MetricComparison | Finding]:
    name = name_soak(record.scenario)
    for subject, value in find_last(record).items():
        yield _allow_a_second_of_load(ask(subject, [value], known, other_cpus=other_cpus), tolerance, record)
    percents = find_drift_percent(record, drifts)
    figures = _list_figures(record.completed)
    worse = {
        _drift_subject(name, figures[name]).key for name, drift in drifts.items() if drift and _is_worse(figures[name], drift)
    }
    # A drift that is significant and for the worse has a tolerance in percentage points of the figure's median.
    points = tolerance.by_metric.get(DRIFT, tolerance.default)
    for subject, percent in percents.items():
        if subject.key in worse:
            asked = ask(subject, [percent], known, other_cpus=other_cpus)
            yield replace(asked, allowance=Allowance(points.amount, is_percent=False))
    if not percents:
        yield make_finding(f"drift of {name}", "info", f"is not compared: that needs {FEWEST_CYCLES} cycles")
    elif calm := len(percents) - len(worse):
        yield make_finding(f"drift of {name}", "pass", f"{calm} of {len(percents)} figures do not become significantly worse")


def _allow_a_second_of_load(question: MetricComparison, tolerance: Tolerance, record: SoakRecord) -> MetricComparison:
    """Return a question about the depth with at least a second of load as its tolerance: a queue that keeps up has some jobs, or none."""
    if question.subject.metric != _DEPTH or _DEPTH in tolerance.by_metric or question.obstacle:
        return question
    allowed = max(tolerance.default.of(statistics.fmean(question.then)), record.scenario.producers.rate)
    return replace(question, allowance=Allowance(allowed, is_percent=False))


def _is_worse(figure: Figure, drift: Drift) -> bool:
    """Whether a figure drifts significantly, and for the worse."""
    return _has_better(figure) and bool(drift.is_significant) and (drift.slope > 0) == (_better(figure) == "lower")


def find_cycle_record(folder: SoakFolder, record: SoakRecord) -> RunRecord | None:
    """Return the record of the last completed cycle whose folder still exists; none if there is none."""
    paths = [folder.cycle(cycle.number).record for cycle in reversed(record.completed)]
    return next((read_record(path) for path in paths if path.is_file()), None)
