"""The rows of a report's tables, from the run's tables: figures of phases, recoveries, errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from stallbench.engines import ENGINES
from stallbench.measure import FromSamples
from stallbench.measures import MEASURES
from stallbench.verdicts import RunTables
from stallbench.verdicts.attribution import describe_missing_recovery

_PHASE_METRICS = (
    ("completed.rate", "completed, jobs/s"),
    ("claim_ms.p50", "claim p50, ms"),
    ("claim_ms.p95", "claim p95, ms"),
    ("claim_ms.p99", "claim p99, ms"),
    ("pickup_ms.p50", "pickup p50, ms"),
    ("pickup_ms.p95", "pickup p95, ms"),
    ("claim_statement_ms.mean", "claim statement, mean, ms"),
    ("claim_statement_buffers.per_call", "claim statement, pages read"),
    ("latency_ms.p95", "latency p95, ms"),
    ("depth.last", "depth at the end"),
    ("dead_tuples.max", "dead tuples, maximum"),
    ("history_list_length.max", "history list length, maximum"),
    ("replica_history_list_length.max", "history list length of the replica, maximum"),
    ("deadlocks.count", "deadlocks"),
    ("deadlocks_in_claim.count", "deadlocks, claim rolled back"),
    ("deadlocks_in_complete.count", "deadlocks, completion rolled back"),
    ("re_executions.count", "re-executions"),
    ("row_lock_wait_ms.rate", "waiting for row locks, ms per second"),
    ("stalled_s.longest", "longest stall, s"),
    ("lost_race.count", "lost races"),
    ("lag_ms.p99", "schedule lag p99, ms"),
    ("cpu_percent.mean", "host CPU, %"),
)
_ONLY_IF_ANY = {
    "dead_tuples.max",
    "history_list_length.max",
    "replica_history_list_length.max",
    "deadlocks.count",
    "deadlocks_in_claim.count",
    "deadlocks_in_complete.count",
    "re_executions.count",
    "row_lock_wait_ms.rate",
    "stalled_s.longest",
    "lost_race.count",
    "lag_ms.p99",
}
"""Rows that are left out if all their values are zero or missing."""
_OF_LIBRARIES = {"pickup_ms", "claim_statement_ms", "claim_statement_buffers"}
"""Measures whose rows take the place of those of `_CLAIM_TIME` in the run of a library, whose claim is not called by the bench."""
_CLAIM_TIME = "claim_ms"
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


def list_phase_rows(run: RunTables) -> list[PhaseRow]:
    """Return a row for each metric, with its value in each phase that has begun."""
    names = [phase.name for phase in run.record.started_phases]
    rows = []
    for metric, label in _PHASE_METRICS:
        measure, _, statistic = metric.partition(".")
        if measure in ({_CLAIM_TIME} if run.record.queue.library or run.record.is_observation else _OF_LIBRARIES):
            continue
        values = [run.metric(measure, statistic, name) for name in names]
        if run.record.is_observation and not (isinstance(MEASURES[measure].source, FromSamples) and any(values)):
            continue
        if metric in _ONLY_IF_ANY and not any(values):
            continue
        rows.append(PhaseRow(label=label, meaning=MEASURES[measure].meaning, values=values))
    return rows


def find_highlights(run: RunTables) -> list[Highlight]:
    """Return the figures of the baseline beside those of the phase with the longest claims by their median; of a library by their statement."""
    measured = [phase.name for phase in run.record.measured_phases]
    if not measured or run.record.is_observation:
        return []
    is_library = run.record.queue.library is not None
    claim, statistic = ("claim_statement_ms", "mean") if is_library else (_CLAIM_TIME, "p50")
    claims = {name: run.metric(claim, statistic, name) or 0.0 for name in measured}
    worst = max(measured, key=lambda name: claims[name])
    shown = (
        (f"{claim}.{statistic}", "mean time of the claim statement" if is_library else "median claim time", "ms"),
        *([("pickup_ms.p50", "median pickup time", "ms")] if is_library else []),
        *_list_old_versions(run),
        ("depth.max", "queue depth", "jobs"),
    )
    if len(measured) == 1:
        return _find_totals(run, measured[0])
    highlights = []
    for metric, label, unit in shown:
        measure, _, statistic = metric.partition(".")
        before, after = run.metric(measure, statistic, measured[0]), run.metric(measure, statistic, worst)
        highlights.append(Highlight(label=label, unit=unit, before=before, after=after, baseline=measured[0], phase=worst))
    return highlights


def _list_old_versions(run: RunTables) -> list[tuple[str, str, str]]:
    """Return the metric of the old row versions that the engine keeps, with its label and unit; empty if it keeps none."""
    measure = ENGINES[run.record.scenario.database.engine].old_versions
    return [(f"{measure}.max", MEASURES[measure].label, "")] if measure else []


def _find_totals(run: RunTables, phase: str) -> list[Highlight]:
    """Return the figures of a run of one phase, which has nothing to be compared with."""
    shown = (
        ("completed.rate", "completed", "jobs/s"),
        ("deadlocks.count", "deadlocks", ""),
        ("re_executions.count", "re-executions", ""),
        ("stalled_s.longest", "longest stall", "s"),
        ("order_diff.max", "largest distance from the order of enqueueing", "positions"),
    )
    totals = []
    for metric, label, unit in shown:
        measure, _, statistic = metric.partition(".")
        value = run.metric(measure, statistic, None if MEASURES[measure].is_of_run else phase)
        if value is not None:
            totals.append(Highlight(label=label, unit=unit, before=None, after=value, baseline="", phase=phase))
    return totals


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
