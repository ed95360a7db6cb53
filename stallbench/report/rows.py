"""The rows of a report's tables, from the run's tables: figures of phases, recoveries, errors."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from stallbench.base.number_text import format_value
from stallbench.engines import ENGINES
from stallbench.measure_definition import QUANTILES, FromSamples, Measure
from stallbench.measures import MEASURES, split_metric
from stallbench.run.record import RunRecord
from stallbench.verdicts import RunTables
from stallbench.verdicts.attribution import describe_missing_recovery
from stallbench.verdicts.requirements import format_ms

_OF_LIBRARIES = {"pickup_ms", "claim_statement_ms", "claim_statement_buffers"}
"""Measures whose rows take the place of those of `_CLAIM_TIME` in the run of a library, whose claim is not called by the bench."""
_CLAIM_TIME = "claim_ms"
_TOTALS = ("completed.rate", "deadlocks.count", "re_executions.count", "stalled_s.longest", "order_diff.max")
"""The metrics of a run that has only one phase."""
_FEW = 3
_BEFORE_FIRST_PHASE = "before the first phase"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """A metric in each phase."""

    label: str
    meaning: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Highlight:
    """A key figure of the run."""

    label: str
    unit: str
    before: float | None
    """In the baseline."""
    after: float | None
    """In ``phase``."""
    baseline: str
    """Name of the baseline; empty if there is nothing to compare with."""
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRow:
    """A fault that is over, and how the queue recovered. Times in seconds; that of a recovery is none if there was none before another fault."""

    fault: str
    on: str
    from_s: float
    end_s: float
    to_first_completion_s: float | None
    to_rate_s: float | None
    to_empty_backlog_s: float | None
    missing: str
    """The words for a recovery time that it does not have."""
    lost: int
    re_completed: int
    re_executed: int
    errors: int
    evidence: str
    """JSON: what showed that the fault was active and gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """Errors of one kind in one operation and one phase."""

    phase: str
    """Empty outside the phases, but not for errors before the first one."""
    kind: str
    operation: str
    event: str
    """``error``, or ``retried`` by the queue itself."""
    count: int
    process: str
    """The processes that recorded them: their names, or their number if they are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionRow:
    """How long the jobs that were completed in a phase took, and where that is on the common axis, in percent of its length."""

    phase: str
    jobs: str
    cells: Sequence[str]
    """The middle job, 95 and 99 of 100, the slowest."""
    from_percent: float
    p95_percent: float
    max_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributions:
    """The latency of each phase, on one logarithmic axis."""

    low: str
    high: str
    """The ends of the axis."""
    rows: Sequence[DistributionRow]


def list_distributions(run: RunTables) -> Distributions | None:
    """Return the latency of the jobs of each phase; none if no phase has one, as if a server was only observed."""
    found = {
        phase.name: values
        for phase in run.record.started_phases
        if all(values := [run.metric("latency_ms", name, phase.name) or 0.0 for name in (*QUANTILES, "max")])
    }
    if not found:
        return None
    low, high = min(values[0] for values in found.values()), max(values[-1] for values in found.values())

    def percent(value: float) -> float:
        return round(100 * math.log(value / low) / math.log(high / low), 1) if high > low else 0.0

    return Distributions(
        low=format_ms(low),
        high=format_ms(high),
        rows=[
            DistributionRow(
                phase=phase,
                jobs=format_value(run.metric("completed", "count", phase) or 0),
                cells=[format_ms(value) for value in values],
                from_percent=percent(values[0]),
                p95_percent=percent(values[1]),
                max_percent=percent(values[3]),
            )
            for phase, values in found.items()
        ],
    )


def list_phase_rows(run: RunTables) -> list[PhaseRow]:
    """Return a row for each metric, with its value in each phase that has begun."""
    names = [phase.name for phase in run.record.started_phases]
    shown = [measure for measure in MEASURES.values() if _is_shown(measure, run.record)]
    return [
        PhaseRow(label=measure.title_of(statistic), meaning=measure.meaning, values=values)
        for measure in shown
        for statistic in measure.in_report
        if any(values := [run.metric(measure.name, statistic, name) for name in names])
        or not (measure.hides_zero or run.record.is_observation)
    ]


def _is_shown(measure: Measure, record: RunRecord) -> bool:
    """Whether the measure can have figures in this run."""
    if record.is_observation and not isinstance(measure.source, FromSamples):
        return False
    return measure.name not in ({_CLAIM_TIME} if record.queue.library or record.is_observation else _OF_LIBRARIES)


def find_highlights(run: RunTables) -> list[Highlight]:
    """Return the figures of the baseline beside those of the phase with the longest claims by their median; of a library by their statement."""
    measured = [phase.name for phase in run.record.measured_phases]
    if not measured or run.record.is_observation:
        return []
    if len(measured) == 1:
        return _find_totals(run, measured[0])
    is_library = run.record.queue.library is not None
    claim = "claim_statement_ms.mean" if is_library else f"{_CLAIM_TIME}.p50"
    claims = {name: run.metric(*split_metric(claim), name) or 0.0 for name in measured}
    worst = max(measured[1:], key=lambda name: claims[name])
    old_versions = ENGINES[run.record.scenario.database.engine].old_versions
    shown = (
        claim,
        *(["pickup_ms.p50"] if is_library else []),
        *([f"{old_versions}.max"] if old_versions else []),
        "depth.max",
    )
    return [_make_highlight(run, metric, baseline=measured[0], phase=worst) for metric in shown]


def _make_highlight(run: RunTables, metric: str, *, baseline: str, phase: str) -> Highlight:
    """Return the figure of ``metric`` in ``phase``; beside that of ``baseline``, if this is not empty."""
    name, statistic = split_metric(metric)
    measure = MEASURES[name]
    return Highlight(
        label=measure.label_of(statistic),
        unit=measure.unit_of(statistic),
        before=run.metric(name, statistic, baseline) if baseline else None,
        after=run.metric(name, statistic, None if measure.is_of_run else phase),
        baseline=baseline,
        phase=phase,
    )


def _find_totals(run: RunTables, phase: str) -> list[Highlight]:
    """Return the figures of a run of one phase, which has nothing to be compared with."""
    totals = (_make_highlight(run, metric, baseline="", phase=phase) for metric in _TOTALS)
    return [total for total in totals if total.after is not None]


def list_recoveries(run: RunTables) -> list[RecoveryRow]:
    """Return a row for each fault that is over: the table ``recoveries``, with the fault's target, start and evidence."""
    faults = {fault.name: fault for fault in run.record.faults}
    if not faults:
        return []
    begins_s = run["injections"].set_index("name")["from_s"]
    rows = run["recoveries"].astype(object).where(run["recoveries"].notna(), None).to_dict("records")
    return [
        RecoveryRow(
            fault=row["fault"],
            on=faults[row["fault"]].on,
            from_s=begins_s[row["fault"]],
            end_s=row["end_s"],
            to_first_completion_s=row["to_first_completion_s"],
            to_rate_s=row["to_rate_s"],
            to_empty_backlog_s=row["to_empty_backlog_s"],
            missing=describe_missing_recovery(row.get("next_change")),
            lost=row["lost"],
            re_completed=row["re_completed"],
            re_executed=row["re_executed"],
            errors=row["errors"],
            evidence=json.dumps(faults[row["fault"]].evidence),
        )
        for row in rows
    ]


def add_up_errors(errors: pd.DataFrame) -> list[ErrorRow]:
    """Return a row for each phase (empty outside the phases), kind, operation and outcome; the processes are named if they are few."""
    if errors.empty:
        return []
    keys = ["phase", "kind", "operation", "event"]
    # A table of an earlier version does not say which errors were before the first phase.
    phases = (
        errors["phase"].mask(errors["latest_phase"].isna(), _BEFORE_FIRST_PHASE) if "latest_phase" in errors else errors["phase"]
    )
    rows = (
        errors.assign(phase=phases.fillna(""))
        .groupby(keys, as_index=False)
        .agg(count=("count", "sum"), names=("process", "unique"))
    )
    return [
        ErrorRow(
            phase=row["phase"],
            kind=row["kind"],
            operation=row["operation"],
            event=row["event"],
            count=row["count"],
            process=", ".join(row["names"]) if len(row["names"]) <= _FEW else f"{len(row['names'])} processes",
        )
        for row in rows.sort_values("count", ascending=False).to_dict("records")
    ]
