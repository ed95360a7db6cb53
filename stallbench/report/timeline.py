"""The events of a run on the time axis of its charts: faults and longrunners, other holders of the horizon, vacuums of the queue's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from stallbench.base.storage.address import AnyPath
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.records.reading import read_sample_frame
from stallbench.report.charts import ChartData, InjectionBand, PhaseBand
from stallbench.verdicts.horizon import HolderStay

_MOST_ROWS = 12
"""Of each kind of event."""
_LEAST_HELD_S = 1.0
"""Of another holder than a longrunner: each statement holds the horizon for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumRun:
    """An autovacuum of a table that ended during the run."""

    table: str
    ended_s: float
    """Since the first phase began."""
    removed: int | None
    """Dead tuples that it removed; none if the server's log was not read. So is ``kept``."""
    kept: int | None
    """Dead tuples that it could not remove."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """From where it begins and how wide it is, in percent of the time axis."""

    left: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """Events of one kind, as a sentence and as bars."""

    kind: Literal["injection", "holder", "vacuum"]
    text: str
    bars: Sequence[Bar]


def read_vacuums(path: AnyPath, start_ns: int) -> list[VacuumRun]:
    """Return the autovacuums that ended after ``start_ns``, in their order. ``path``: samples of the collector ``vacuum``.

    Of several between two samples, only the last one is known.
    """
    found = []
    for subject, of_table in read_sample_frame(path).groupby("subject"):
        looks = of_table.pivot_table(index="t_ns", columns="metric", values="number", aggfunc="last")
        if not {"autovacuum_count", "last_autovacuum_age_s"} <= set(looks):
            continue
        looks["ended_ns"] = looks.index - looks["last_autovacuum_age_s"] * NS_PER_S
        # The server writes its log after its counters, so the figures may be there one sample later.
        later = looks.shift(-1).where(looks["autovacuum_count"].shift(-1) == looks["autovacuum_count"], looks)
        for _, look in later[looks["autovacuum_count"].diff() > 0].iterrows():
            if look["ended_ns"] >= start_ns:
                found.append(
                    VacuumRun(
                        table=str(subject).removeprefix("table:"),
                        ended_s=(look["ended_ns"] - start_ns) / NS_PER_S,
                        removed=_count(look.get("removed_tuples")),
                        kept=_count(look.get("not_removable_tuples")),
                    )
                )
    return sorted(found, key=lambda vacuum: vacuum.ended_s)


def _count(value: float | None) -> int | None:
    return None if value is None or pd.isna(value) else int(value)


def list_timeline(data: ChartData, holders: Sequence[HolderStay], vacuums: Sequence[VacuumRun]) -> list[TimelineRow]:
    """Return the rows; the axis is that of the charts of ``data``."""
    end_s = max([data["t_s"][-1] + 1 if data["t_s"] else 1, *(phase["to_s"] or 0 for phase in data["phases"])])

    def bar(from_s: float, to_s: float | None) -> Bar:
        left, right = (min(100.0, max(0.0, 100 * t_s / end_s)) for t_s in (from_s, end_s if to_s is None else to_s))
        return Bar(left=round(left, 2), width=round(max(0.0, right - left), 2))

    injected = [band for band in data["bands"] if band["from_s"] is not None]
    rows = [
        TimelineRow(
            kind="injection",
            text=f"{_name_band(band)}, {_format_span(band['from_s'], band['to_s'])}",
            bars=[bar(band["from_s"], band["to_s"])],
        )
        for band in injected[:_MOST_ROWS]
        if band["from_s"] is not None
    ]
    names = {band["name"] for band in injected}
    others = [stay for stay in holders if stay.name not in names and stay.oldest_s >= _LEAST_HELD_S]
    rows += [
        TimelineRow(
            kind="holder",
            text=f"{stay.name} on {stay.server} held the horizon, {_format_span(stay.from_s, stay.to_s)}",
            bars=[bar(stay.from_s, stay.to_s)],
        )
        for stay in sorted(others, key=lambda stay: stay.from_s)[:_MOST_ROWS]
    ]
    return [*rows, *_list_vacuum_rows(vacuums, bar)]


def _list_vacuum_rows(vacuums: Sequence[VacuumRun], bar: Callable[[float, float], Bar]) -> Iterator[TimelineRow]:
    for table in dict.fromkeys(vacuum.table for vacuum in vacuums):
        of_table = [vacuum for vacuum in vacuums if vacuum.table == table]
        known = [vacuum for vacuum in of_table if vacuum.removed]
        most = max(known, key=lambda vacuum: vacuum.removed or 0, default=None)
        times = "once" if len(of_table) == 1 else f"{len(of_table)} times"
        removed = f"; the one at {most.ended_s:.0f} s removed the most, {most.removed:,} dead rows" if most else ""
        yield TimelineRow(
            kind="vacuum",
            text=f"autovacuum of {table} ended {times}{removed}",
            bars=[bar(vacuum.ended_s, vacuum.ended_s) for vacuum in of_table],
        )


def _name_band(band: PhaseBand | InjectionBand) -> str:
    target = band.get("target")
    return f"{band['name']} on {target}" if target else band["name"]


def _format_span(from_s: float, to_s: float | None) -> str:
    return f"{max(0.0, from_s):.0f} s to {'the end' if to_s is None else f'{to_s:.0f} s'}"
