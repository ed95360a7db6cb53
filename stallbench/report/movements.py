"""Which rises of a curve a reader will ask about, although no fault was active, and what happened in the same seconds.

It states what coincides, as far as the data go, and not a cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import pandas as pd

from stallbench.base.number_text import format_value
from stallbench.report.charts import ChartData, Figure, Series
from stallbench.report.timeline import VacuumRun

_BEFORE_S = 5
_HIGHER = 3.0
"""So many times the median of the seconds before. On a busy machine single seconds are twice as slow without any reason."""
_LEAST_S = 2
"""For so many seconds in a row: a shorter one is one of a busy machine."""
_NEAR_S = 1.5
"""A second of the curve is a whole one, and a vacuum ends within it or just before."""
_SHOWN = 3
_SCANS_PER_CALL = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Seconds in which a curve was much higher than just before."""

    from_s: float
    to_s: float
    before: float
    """The median of the seconds before."""
    during: float
    """The median of its own."""


def with_movements(
    figures: Sequence[Figure], charts: ChartData, windows: pd.DataFrame, vacuums: Sequence[VacuumRun]
) -> list[Figure]:
    """Return the figures, each with a sentence for each conspicuous rise of its first curve. ``windows``: the seconds of the charts."""
    quiet = [not any(_is_in(t_s, band["from_s"], band["to_s"]) for band in charts["bands"]) for t_s in charts["t_s"]]
    scans = _count_scans_per_call(windows)
    return [
        replace(
            figure,
            events=[
                _describe(movement, chart["unit"], scans, vacuums)
                for movement in list(find_movements(charts["t_s"], chart["series"][0], quiet))[:_SHOWN]
            ],
        )
        if chart["title"] in _EXPLAINED
        else figure
        for figure, chart in zip(figures, charts["charts"], strict=True)
    ]


_EXPLAINED = ("Claim time", "Claim statement on the server", "Pages that a claim reads")
"""Charts of what a claim costs: what happened to the jobs follows from it."""


def _is_in(t_s: float, from_s: float | None, to_s: float | None) -> bool:
    """Whether a fault was active in a second, or ended in the one before."""
    return from_s is not None and t_s + 1 > from_s and (to_s is None or t_s <= to_s + 1)


def find_movements(t_s: Sequence[float], series: Series, quiet: Sequence[bool]) -> Iterator[Movement]:
    """Yield the conspicuous rises in the seconds that are ``quiet``, in their order."""
    values = series["values"]
    at = _BEFORE_S
    while at < len(values):
        before = [
            value
            for value, is_quiet in zip(values[at - _BEFORE_S : at], quiet[at - _BEFORE_S : at], strict=True)
            if value is not None and is_quiet
        ]
        level = median(before) if len(before) == _BEFORE_S else None
        end = at
        while level and end < len(values) and quiet[end] and (value := values[end]) is not None and value >= _HIGHER * level:
            end += 1
        if level and end - at >= _LEAST_S:
            during = median(value for value in values[at:end] if value is not None)
            yield Movement(from_s=t_s[at], to_s=t_s[end - 1] + 1, before=level, during=during)
        at = max(end, at + 1)


def _count_scans_per_call(windows: pd.DataFrame) -> dict[float, float]:
    """Return how often the tables of the queue were read as a whole for each call of the claim statement, by second; empty if that is not known."""
    if not {"sequential_scans_count", "claim_statement_calls"} <= set(windows):
        return {}
    calls = windows["claim_statement_calls"].astype(float).diff()
    scans = windows["sequential_scans_count"].astype(float) / calls.where(calls > 0)
    return {float(t): float(value) for t, value in zip(windows["t_s"], scans, strict=True) if pd.notna(value)}


def _describe(movement: Movement, unit: str, scans: dict[float, float], vacuums: Sequence[VacuumRun]) -> str:
    read = (
        f"a claim read {format_value(movement.during)} pages"
        if unit == "buffers"
        else f"it took {format_value(movement.during)} {unit}"
    )
    sentence = f"From {movement.from_s:.0f} s to {movement.to_s:.0f} s {read} instead of {format_value(movement.before)}."
    found = [value for t_s, value in scans.items() if movement.from_s <= t_s < movement.to_s]
    parts = []
    if found and median(found) >= _SCANS_PER_CALL:
        parts.append(f"the server read the whole table, without an index, {median(found):.1f} times a call")
    begun = [vacuum for vacuum in vacuums if abs(vacuum.ended_s - movement.from_s) <= _NEAR_S]
    ended = [vacuum for vacuum in vacuums if abs(vacuum.ended_s - movement.to_s) <= _NEAR_S and vacuum not in begun]
    if begun:
        parts.append(f"it began when {_name(begun[-1])} had ended")
    if ended:
        parts.append(f"it was over when {_name(ended[-1])} had ended")
    told = "; ".join(parts)
    return f"{sentence} {told[0].upper()}{told[1:]}." if told else f"{sentence} No vacuum ended when it began or was over."


def _name(vacuum: VacuumRun) -> str:
    removed = "" if vacuum.removed is None else f", which removed {vacuum.removed:,} dead rows,"
    return f"the autovacuum of {vacuum.table} at {vacuum.ended_s:.0f} s{removed}"
