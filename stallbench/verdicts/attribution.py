"""Which transaction held the horizon, and did claim time rise with it? The paragraph that an engineer on call reads first.

It states what the data show, not what caused it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from stallbench.engines import ENGINES
from stallbench.measures import MEASURES
from stallbench.run.record import RunRecord
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL
from stallbench.verdicts.diagnosis import (
    describe_notify_waits,
    describe_starved_tables,
    describe_stuck_clients,
)
from stallbench.verdicts.horizon import HolderStay, describe_holders, describe_no_holders, find_sampling, read_holders
from stallbench.verdicts.slow_statements import describe_slow_statement

if TYPE_CHECKING:
    from stallbench.verdicts.check import RunTables

_FEWEST_WINDOWS = 10
_MOMENT_S = 1.0
"""A fault that was active for a shorter time is described with one time instead of two."""
_RECOVERED_TO = {
    "to_first_completion_s": "the next completion",
    "to_rate_s": "the baseline's rate",
    "to_empty_backlog_s": "the empty backlog",
}
_COUNTS = {"lost": "lost", "re_completed": "re_completed", "re_executed": "re_executions", "errors": "errors"}
"""The measure that each column of ``recoveries`` counts."""
_CLAIM_TIME = f"median {MEASURES['claim_ms'].label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTimeTrend:
    """How claim time changes with the old row versions that the engine keeps, over the seconds of all measured phases."""

    old_versions: str
    """``dead tuples`` or ``history list length``."""
    unit: str
    """One dead tuple, or one entry of the history list."""
    windows: int
    spearman: float
    pearson: float
    slope_us: float
    """Microseconds of median claim time per unit, by the Theil-Sen estimator. A second in which the machine was busy with
    something else changes it little; it would shift a least-squares line."""
    slope_low_us: float
    slope_high_us: float
    """Ends of the 95 % confidence interval."""

    @property
    def is_rising(self) -> bool:
        """Whether the whole confidence interval of the slope is above zero."""
        return self.slope_low_us > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """What held the horizon, what the faults cost, and how claim time changed."""

    sentence: str
    holders: tuple[HolderStay, ...]
    """Starting with the one that was the oldest holder for the longest time."""
    no_holders: str = ""
    """A sentence that says why there are none; empty if there are some."""
    not_sampled: str = ""
    """A sentence about the parts of the run in which the horizon was not sampled; empty if there are none, or if it was never sampled."""
    trend: ClaimTimeTrend | None

    def as_json(self) -> dict[str, object]:
        """Return it for ``verdict.json``."""
        return asdict(self)


def attribute(run: RunTables) -> Attribution:
    """Return what held the horizon and how claim time changed with the old row versions."""
    engine = ENGINES[run.record.scenario.database.engine]
    holders = read_holders(run)
    trend = _measure_trend(run["windows"], run.record, engine.old_versions) if engine.old_versions else None
    sampling = find_sampling(run, holders)
    no_holders = "" if holders else describe_no_holders(run, sampling)
    not_sampled = sampling.describe_gaps() if engine.old_versions else ""
    parts = [
        *_describe_faults(run),
        _describe_deadlocks(run),
        _describe_conflicts(run),
        (no_holders or describe_holders(holders)) if engine.old_versions else "",
        not_sampled,
        describe_stuck_clients(run),
        describe_starved_tables(run),
        describe_notify_waits(run),
        _describe_worst_phase(run),
        describe_slow_statement(run),
        _describe_trend(trend) if trend else "",
    ]
    return Attribution(
        sentence=" ".join(part for part in parts if part),
        holders=holders,
        no_holders=no_holders,
        not_sampled=not_sampled,
        trend=trend,
    )


def _measure_trend(windows: pd.DataFrame, record: RunRecord, old_versions: str) -> ClaimTimeTrend | None:
    """Correlate claim time and old row versions over the seconds of measured phases; none if there are too few seconds, or if one of the two never
    changes.
    """
    if old_versions not in windows:
        return None
    measured = [phase.name for phase in record.measured_phases]
    rows = windows[windows["phase"].isin(measured)][[old_versions, "claim_ms_p50"]].dropna()
    if len(rows) < _FEWEST_WINDOWS or rows.nunique().min() < 2:
        return None
    from scipy import stats  # half a second of a processor, which only runs with such a trend need

    count, claim_us = rows[old_versions].to_numpy(float), rows["claim_ms_p50"].to_numpy(float) * 1e3
    slope, _, low, high = stats.theilslopes(claim_us, count, alpha=CONFIDENCE_LEVEL)
    return ClaimTimeTrend(
        old_versions=MEASURES[old_versions].label,
        unit=MEASURES[old_versions].singular,
        windows=len(rows),
        spearman=float(stats.spearmanr(count, claim_us).statistic),
        pearson=float(np.corrcoef(count, claim_us)[0, 1]),
        slope_us=float(slope),
        slope_low_us=float(low),
        slope_high_us=float(high),
    )


def _describe_faults(run: RunTables) -> list[str]:
    """Describe for each fault when it was active, how the queue recovered after it, and what was counted for it."""
    on = {fault.name: fault.on for fault in run.record.faults}
    if not on:
        return []
    injections = run["injections"]
    starts_s = {
        str(name): float(from_s) for name, from_s in zip(injections["name"], injections["from_s"], strict=True) if name in on
    }
    return [_describe_fault(row, on[row["fault"]], starts_s) for row in run["recoveries"].to_dict("records")]


def _describe_fault(row: Mapping[Any, Any], on: str, starts_s: Mapping[str, float]) -> str:
    start_s = starts_s[row["fault"]]
    when = f"at {start_s:.0f} s" if row["end_s"] - start_s < _MOMENT_S else f"from {start_s:.0f} s to {row['end_s']:.0f} s"
    recovered = [
        f"{words} {f'after {row[column]:.1f} s' if pd.notna(row[column]) else describe_missing_recovery(row.get('next_change'))}"
        for column, words in _RECOVERED_TO.items()
    ]
    counts = [f"{row[column]:,.0f} {MEASURES[measure].label}" for column, measure in _COUNTS.items() if row[column]]
    described = f"{row['fault']} was active on {on} {when}. Recovery, counted from its end: {', '.join(recovered)}."
    later = {name: other_s for name, other_s in starts_s.items() if other_s > row["end_s"]}
    until = f"the start of {min(later, key=lambda name: later[name])}" if later else "the end of the run"
    return described + (f" From its start to {until}: {', '.join(counts)}." if counts else "")


def describe_missing_recovery(next_change: str | None) -> str:
    """Return why a row of ``recoveries`` has no time: the queue did not recover, or only after another fault had begun or ended (``next_change``).
    ``next_change`` is none or NaN if there was no such change, and in tables of earlier versions.
    """
    return "not in this run" if pd.isna(next_change) else f"not before {next_change}"


def _describe_conflicts(run: RunTables) -> str:
    """Describe how many queries replicas cancelled; empty if none."""
    count = run.metric("conflicts", "count", None) or 0
    return f"Recovery on the replicas cancelled {int(count):,} conflicting queries." if count else ""


def _describe_deadlocks(run: RunTables) -> str:
    """Describe how many deadlocks there were and which operations were rolled back; empty if there were none."""
    count = run.metric("deadlocks", "count", None) or 0
    if not count:
        return ""
    operations = {"claim": "claims", "complete": "completions", "enqueue": "enqueues"}
    rolled_back = [
        f"{victims:,.0f} {name}"
        for operation, name in operations.items()
        if (victims := run.metric(f"deadlocks_in_{operation}", "count", None))
    ]
    undone = " and ".join(rolled_back) or "operations that no client recorded"
    re_executions = run.metric("re_executions", "count", None) or 0
    further = f" There were {re_executions:,.0f} {MEASURES['re_executions'].label}." if re_executions else ""
    return f"The server broke {count:,.0f} deadlocks and rolled back {undone}.{further}"


def _describe_worst_phase(run: RunTables) -> str:
    worst = _find_worst_phase(run)
    if worst is None:
        return ""
    baseline, phase, before_ms, after_ms = worst
    before, after = f"{before_ms:.2f} ms", f"{after_ms:.2f} ms"
    if before == after:
        return f"The {_CLAIM_TIME} did not change: {after} in {baseline} and in {phase}."
    return f"The {_CLAIM_TIME} {'rose' if after_ms > before_ms else 'fell'} from {before} in {baseline} to {after} in {phase}."


def _describe_trend(trend: ClaimTimeTrend) -> str:
    slope, low, high, correlation = (
        _format_hundredths(value) for value in (trend.slope_us, trend.slope_low_us, trend.slope_high_us, trend.spearman)
    )
    if not trend.is_rising:
        return (
            f"Second by second, the {_CLAIM_TIME} does not rise with the {trend.old_versions} (95 % confidence interval of the slope: "
            f"{low} to {high} µs per {trend.unit}; rank correlation {correlation})."
        )
    return (
        f"Second by second, the {_CLAIM_TIME} rises with the {trend.old_versions}: by {slope} µs per {trend.unit} "
        f"(95 % confidence interval {low} to {high} µs; rank correlation {correlation})."
    )


def _format_hundredths(value: float) -> str:
    """Format a number with two decimals, and zero without a sign."""
    return f"{round(value, 2) + 0.0:.2f}"


def _find_worst_phase(run: RunTables) -> tuple[str, str, float, float] | None:
    """Return the baseline and the measured phase with the longest claims by their median, with both medians in milliseconds."""
    measured = [phase.name for phase in run.record.measured_phases]
    values = {name: value for name in measured if (value := run.metric("claim_ms", "p50", name)) is not None}
    if len(values) < 2 or measured[0] not in values:
        return None
    worst = max((name for name in values if name != measured[0]), key=lambda name: values[name])
    return measured[0], worst, values[measured[0]], values[worst]
