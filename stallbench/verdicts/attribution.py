"""Who held the horizon, and did claim time follow? The sentence that somebody paged at night wants to read first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from stallbench.injection.record import read_injections
from stallbench.verdicts.diagnosis import describe_notify_waits, describe_starved_tables, describe_stuck_clients

if TYPE_CHECKING:
    from stallbench.verdicts.check import RunTables

_FEWEST_WINDOWS = 10
_STAYED_S = 1.0
"""Who held the horizon for less is a worker at its work."""
_CONFIDENCE = 0.95
_CAME_BACK = {
    "to_first_completion_s": "the next completion",
    "to_rate_s": "the baseline's rate",
    "to_empty_backlog_s": "an empty backlog",
}
_COST = {
    "lost": "jobs were lost",
    "duplicated": "jobs were done twice",
    "re_executed": "executions were of jobs that had been executed before",
    "errors": "calls raised",
}
"""By column of ``recoveries``."""
_GARBAGE = {"dead_tuples": "dead tuples", "history_list_length": "transactions in the history list"}
"""By column of ``windows``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderStay:
    """Somebody's stay as a holder of the horizon."""

    name: str
    """The longrunner's name, else the application's, else the holder's own."""
    description: str
    server: str
    from_s: float
    to_s: float
    age_s: float | None
    age_xids: int | None
    oldest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageEffect:
    """How claim time goes with what the engine keeps of deleted rows, over the seconds of all measured phases."""

    garbage: str
    """What that is, in the plural: PostgreSQL's dead tuples, or transactions in InnoDB's history list."""
    windows: int
    spearman: float
    pearson: float
    slope_us: float
    """Microseconds of median claim time for each of them, by the Theil-Sen estimator: a second in which the machine was
    busy with something else moves it little, while it would pull a least-squares line."""
    slope_low_us: float
    slope_high_us: float
    """Ends of the 95 % confidence interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """What the run says about cause and effect."""

    sentence: str
    holders: tuple[HolderStay, ...]
    """Those that were the oldest for some time, by how long; then the others."""
    effect: GarbageEffect | None

    def as_json(self) -> dict[str, Any]:
        """Return it for ``verdict.json``."""
        return asdict(self)


def attribute(run: RunTables) -> Attribution:
    """Read who held the horizon and how claim time followed it."""
    holders = _read_holders(run["holders"])
    effect = _measure_effect(run["windows"], run.record)
    told = [
        *_describe_faults(run),
        _describe_deadlocks(run),
        _describe_conflicts(run),
        _describe_holders(holders),
        describe_stuck_clients(run),
        describe_starved_tables(run),
        describe_notify_waits(run),
        _describe_effect(run, effect),
    ]
    sentence = " ".join(part for part in told if part)
    return Attribution(sentence=sentence, holders=holders, effect=effect)


def _read_holders(table: pd.DataFrame) -> tuple[HolderStay, ...]:
    holding = table[~table["catalog_only"].fillna(False).astype(bool)]
    stayed_s = holding["max_age_s"].fillna(holding["to_s"] - holding["from_s"])
    holding = holding[stayed_s >= _STAYED_S]
    ordered = holding.sort_values(["oldest_s", "max_age_xids"], ascending=False)
    return tuple(_read_stay(row) for row in ordered.to_dict("records"))


def _read_stay(row: dict[Any, Any]) -> HolderStay:
    name = row["longrunner"] if isinstance(row["longrunner"], str) else row["application"] or str(row["holder"])
    match row["kind"]:
        case "backend":
            about = f"backend {row['pid']:.0f} on {row['server']}, {row['state']}, application {row['application'] or 'unnamed'}"
            if row["via"]:
                about += f", holding the primary's horizon through {str(row['via']).replace('slot:', 'slot ')}"
        case "prepared":
            about = f"prepared transaction {row['holder']} on {row['server']}, which no session shows"
        case "slot":
            about = f"replication slot {row['holder']} on {row['server']}, {row['state']}"
        case _:
            about = f"feedback of {row['holder']}, behind which no backend was seen"
    return HolderStay(
        name=str(name),
        description=about,
        server=str(row["server"]),
        from_s=float(row["from_s"]),
        to_s=float(row["to_s"]),
        age_s=None if pd.isna(row["max_age_s"]) else float(row["max_age_s"]),
        age_xids=None if pd.isna(row["max_age_xids"]) else int(row["max_age_xids"]),
        oldest_s=float(row["oldest_s"]),
    )


def _measure_effect(windows: pd.DataFrame, record: Mapping[str, Any]) -> GarbageEffect | None:
    """Correlate the seconds of measured phases; none if there are too few, or if one of the two never changes."""
    measured = [phase["name"] for phase in record["phases"] if phase["measured"]]
    column = next((name for name in _GARBAGE if name in windows and windows[name].notna().any()), "dead_tuples")
    rows = windows[windows["phase"].isin(measured)][[column, "claim_ms_p50"]].dropna()
    if len(rows) < _FEWEST_WINDOWS or rows.nunique().min() < 2:
        return None
    dead, claim_us = rows[column].to_numpy(float), rows["claim_ms_p50"].to_numpy(float) * 1e3
    slope, _, low, high = stats.theilslopes(claim_us, dead, alpha=_CONFIDENCE)
    return GarbageEffect(
        garbage=_GARBAGE[column],
        windows=len(rows),
        spearman=float(stats.spearmanr(dead, claim_us).statistic),
        pearson=float(np.corrcoef(dead, claim_us)[0, 1]),
        slope_us=float(slope),
        slope_low_us=float(low),
        slope_high_us=float(high),
    )


def _describe_faults(run: RunTables) -> list[str]:
    """Say of each fault when it was, how the queue came back from it, and what it cost."""
    on = {fault.name: fault.on for fault in read_injections(run.record, "fault")}
    if not on:
        return []
    begins_s = run["injections"].set_index("name")["from_s"]
    told = []
    for row in run["recoveries"].to_dict("records"):
        name, from_s, end_s = row["fault"], begins_s[row["fault"]], row["end_s"]
        when = f"at {from_s:.0f} s" if end_s - from_s < _STAYED_S else f"from {from_s:.0f} s to {end_s:.0f} s"
        back = [
            f"{words} after {row[column]:.1f} s" if pd.notna(row[column]) else f"{words} not within this run"
            for column, words in _CAME_BACK.items()
        ]
        cost = [f"{row[column]:,.0f} {words}" for column, words in _COST.items() if row[column]]
        told.append(
            f"{name} was in force on {on[name]} {when}; then came {', '.join(back)}{'; ' if cost else ''}{', '.join(cost)}."
        )
    return told


def _describe_conflicts(run: RunTables) -> str:
    """Say how many queries replicas have cancelled; nothing if none."""
    count = run.metric("conflicts", "count", None) or 0
    return f"Recovery on replicas cancelled {int(count):,} queries that were in its way." if count else ""


def _describe_deadlocks(run: RunTables) -> str:
    """Say how many deadlocks there were, whose calls were rolled back, and what came of it; nothing if there were none."""
    count = run.metric("deadlocks", "count", None) or 0
    if not count:
        return ""
    moves = {"claim": "claims", "complete": "completions", "enqueue": "enqueues"}
    rolled_back = [
        f"{victims:,.0f} {name}" for move, name in moves.items() if (victims := run.metric(f"deadlocks_in_{move}", "count", None))
    ]
    again = run.metric("re_executions", "count", None) or 0
    told = f"The server broke {count:,.0f} deadlocks, rolling back {' and '.join(rolled_back) or 'calls that nobody recorded'}"
    return told + (f"; {again:,.0f} executions were of jobs that had been done before." if again else ".")


def _describe_holders(holders: tuple[HolderStay, ...]) -> str:
    if not holders:
        return "Nobody held the horizon for longer than a second."
    oldest, *others = holders
    age = [
        f"{oldest.age_s:.0f} s" if oldest.age_s is not None else "",
        f"{oldest.age_xids:,} transactions" if oldest.age_xids else "",
    ]
    up_to = f", for up to {' and '.join(part for part in age if part)}" if any(age) else ""
    told = f"From {oldest.from_s:.0f} s to {oldest.to_s:.0f} s {oldest.name} ({oldest.description}) held the horizon{up_to}."
    if others:
        named = ", ".join(f"{other.name} on {other.server} ({other.from_s:.0f} to {other.to_s:.0f} s)" for other in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        told += f" Besides it, or behind it: {named}{more}."
    return told


def _describe_effect(run: RunTables, effect: GarbageEffect | None) -> str:
    worst = _find_worst_phase(run)
    told = ""
    if worst:
        baseline, phase, before_ms, after_ms = worst
        change = "rose" if after_ms > before_ms else "fell"
        told = f"Claim time p95 {change} from {before_ms:.2f} ms in {baseline} to {after_ms:.2f} ms in {phase}"
    if effect is None:
        return f"{told}." if told else ""
    spearman = f"Spearman {effect.spearman:.2f}"
    if effect.slope_low_us > 0:
        with_tuples = (
            f"with the {effect.garbage} ({spearman}), by {effect.slope_us:.2f} µs for each of them "
            f"(95 % between {effect.slope_low_us:.2f} and {effect.slope_high_us:.2f})"
        )
        if " fell " in told:
            return f"{told}; from second to second it went {with_tuples}."
        return f"{told}, {with_tuples}." if told else f"Claim time went {with_tuples}."
    if told:
        return f"{told}, but not because of the {effect.garbage} ({spearman}, slope not above zero)."
    return f"Claim time did not rise with the {effect.garbage} ({spearman}, slope not above zero)."


def _find_worst_phase(run: RunTables) -> tuple[str, str, float, float] | None:
    """Return the baseline and the measured phase with the longest claims, with both p95 in milliseconds."""
    measured = [phase["name"] for phase in run.record["phases"] if phase["measured"]]
    values = {name: value for name in measured if (value := run.metric("claim_ms", "p95", name)) is not None}
    if len(values) < 2 or measured[0] not in values:
        return None
    worst = max((name for name in values if name != measured[0]), key=lambda name: values[name])
    return measured[0], worst, values[measured[0]], values[worst]
