"""Collects the data of a report's charts: seconds, bands of phases and faults, bars of holders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

import numpy as np
import pandas as pd

from stallbench.measure import Chart, FromSamples, Measure
from stallbench.measures import CHARTS, MEASURES
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord
from stallbench.verdicts import RunTables, Verdict
from stallbench.visible_text import make_visible

_DRAWN_QUANTILES = {"p95": "red", "p50": "blue"}
"""Statistics of single values that a chart draws, and their colours."""
_COLOURS = ("violet", "orange", "green", "blue")
_MOST_POINTS = 5000
_MOST_BARS = 12
_MOST_ROUNDS = 20
_ORDER_GROUPS = (0, 1, 5, 20, 100, 1_000, 10_000, 100_000, 1_000_000)
"""The largest difference in each group of the page's histogram of the order; a last group has all that are larger."""


class PhaseBand(TypedDict):
    """A phase, or a part of a soak, as a band behind the curves."""

    name: str
    from_s: float
    to_s: float | None
    """None if its end is not known."""


class InjectionBand(TypedDict):
    """An injection as a band behind the curves. Times are none if unknown."""

    name: str
    target: str
    from_s: float | None
    to_s: float | None


class Series(TypedDict):
    """A line of a chart."""

    column: str
    """Of the table ``windows``."""
    label: str
    hue: NotRequired[str]
    """Its colour; every series of a chart that is listed has one."""


class ChartOfPage(TypedDict):
    """A chart, as charts.js wants it."""

    title: str
    log: bool
    """Whether its vertical axis is logarithmic."""
    series: list[Series]


def cut_windows(run: RunTables) -> pd.DataFrame:
    """Return the whole seconds of the phases, in order."""
    windows = run["windows"].sort_values("t_s")
    # The last second is cut off by the end of the load, and would look like a drop in the rate.
    ends_ns = [phase.end_ns for phase in run.record.phases if phase.end_ns]
    return windows[(windows["t_s"] >= 0) & (windows["t_ns"] + NS_PER_S <= max(ends_ns, default=2**63 - 1))]


def list_phases(record: RunRecord) -> list[PhaseBand]:
    """Return the phases that have begun, for the bands of a chart."""
    start_ns = next((phase.start_ns for phase in record.phases if phase.start_ns), 0)
    return [
        {
            "name": phase.name,
            "from_s": (phase.start_ns - start_ns) / NS_PER_S,
            "to_s": (phase.end_ns - start_ns) / NS_PER_S if phase.end_ns else None,
        }
        for phase in record.phases
        if phase.start_ns
    ]


def list_injections(run: RunTables) -> list[InjectionBand]:
    """Return the injections of each phase, for the bands of a chart.

    Maintenance, which lasts for the whole run, has no band.
    """
    injections = run["injections"]
    return [
        InjectionBand(
            name=row["name"],
            target=row["target"],
            from_s=None if pd.isna(row["from_s"]) else row["from_s"],
            to_s=None if pd.isna(row["to_s"]) else row["to_s"],
        )
        for row in injections[injections["phase"].notna()].to_dict("records")
    ]


def as_script_data(data: Mapping[str, object]) -> str:
    """Return ``data`` as JSON that is safe inside a script element, with its texts made visible."""
    return json.dumps(_show(data)).replace("<", "\\u003c")


def _show(value: object) -> object:
    if isinstance(value, str):
        return make_visible(value)
    if isinstance(value, Mapping):
        return {_show(key): _show(each) for key, each in value.items()}
    return [_show(each) for each in value] if isinstance(value, list | tuple) else value


def list_charts(columns: Mapping[str, Sequence[float | None]]) -> list[ChartOfPage]:
    """Return the charts of the page in their order.

    ``columns``: the values of each second by the column of the table ``windows``. A chart without values is left out.
    """
    charts = {chart.title: chart for chart in CHARTS}
    charts |= {
        measure.chart: Chart(measure.chart) for measure in MEASURES.values() if measure.chart and measure.chart not in charts
    }
    listed: list[ChartOfPage] = []
    for chart in charts.values():
        measures = [measure for measure in MEASURES.values() if measure.chart == chart.title]
        series = [one for measure in measures for one in _list_series(measure) if one["column"] in columns]
        for one, colour in zip(series, _COLOURS, strict=False):
            one.setdefault("hue", colour)
        values = [value for one in series for value in columns[one["column"]] if value is not None]
        if any(values) if chart.hides_zero else values:
            unit = f"{measures[0].unit}/s" if measures[0].is_counted else measures[0].unit
            listed.append({"title": f"{chart.title}, {unit}", "log": chart.is_logarithmic, "series": series})
    return listed


def _list_series(measure: Measure) -> list[Series]:
    """Return what a chart draws of a measure: a line for each quantile, or one line."""
    quantiles = [name for name in _DRAWN_QUANTILES if name in measure.by_second]
    if quantiles:
        return [{"column": f"{measure.name}_{name}", "label": name, "hue": _DRAWN_QUANTILES[name]} for name in quantiles]
    quotients = [name for name in measure.by_second if name in measure.quotients]
    return [{"column": f"{measure.name}_{name}" if name else measure.name, "label": measure.label} for name in quotients or [""]]


def group_order(run: RunTables) -> list[tuple[str, int]]:
    """Group the executions by their distance from the order of enqueueing; return the label and the count of each group that is not empty.

    The groups are narrow near 0 and wide far from it, so that there are few of them even if some distances are large.
    """
    claims = np.zeros(len(_ORDER_GROUPS) + 1, dtype=np.int64)
    for batch in run.batches("order", ["diff", "claims"]):
        groups = np.searchsorted(_ORDER_GROUPS, batch["diff"].to_numpy(), side="left")
        np.add.at(claims, groups, batch["claims"].to_numpy())
    labels = [
        f"{high}" if high == low else f"{low:,} to {high:,}"
        for low, high in zip((0, *(high + 1 for high in _ORDER_GROUPS)), _ORDER_GROUPS, strict=False)
    ]
    pairs = zip([*labels, f"over {_ORDER_GROUPS[-1]:,}"], claims.tolist(), strict=True)
    return [(label, count) for label, count in pairs if count]


def list_rounds(run: RunTables) -> list[tuple[str, int]]:
    """Return how many jobs were claimed in each of the first rounds, and in all later ones together: label and count."""
    first = run.first("rounds", _MOST_ROUNDS)
    rows = [(f"round {number}", int(jobs)) for number, jobs in zip(first["round"], first["jobs"], strict=True)]
    jobs = sum(int(batch["jobs"].to_numpy().sum()) for batch in run.batches("rounds", ["jobs"]))
    later = jobs - sum(count for _, count in rows)
    return [*rows, ("later", later)] if later else rows


def make_chart_data(run: RunTables, verdict: Verdict) -> str:
    """Return what the charts draw, as JSON that is safe inside a script element."""
    windows = cut_windows(run)
    step = 1 + len(windows) // _MOST_POINTS
    measures = [
        measure for measure in MEASURES.values() if not run.record.is_observation or isinstance(measure.source, FromSamples)
    ]
    drawn = [one["column"] for measure in measures if measure.chart for one in _list_series(measure)]
    columns = {name: [None if pd.isna(v) else float(v) for v in windows[name].iloc[::step]] for name in drawn if name in windows}
    data = {
        "t_s": [int(t) for t in windows["t_s"].iloc[::step]],
        "columns": columns,
        "charts": list_charts(columns),
        "phases": list_phases(run.record),
        "bands": list_injections(run),
        "holders": [
            {"name": stay.name, "server": stay.server, "from_s": stay.from_s, "to_s": stay.to_s, "about": stay.description}
            for stay in sorted(verdict.attribution.holders, key=lambda stay: stay.from_s)[:_MOST_BARS]
        ],
        "rounds": list_rounds(run),
        "order": group_order(run),
    }
    return as_script_data(data)
