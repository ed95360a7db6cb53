"""Collects what the charts of a page draw, and what stands beside each of them as text: its meaning, and its values by phase."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np
import pandas as pd

from stallbench.base.number_text import format_value
from stallbench.measure_definition import Chart as DeclaredChart
from stallbench.measure_definition import FromSamples, Measure
from stallbench.measures import CHARTS, MEASURES
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord
from stallbench.verdicts import RunTables
from stallbench.visible_text import make_visible

_DRAWN_QUANTILES = {"p95": "orange", "p50": "blue"}
"""Statistics of single values that a chart draws, and their colours. Red is the colour of faults."""
_COLOURS = ("violet", "orange", "green", "blue")
_HUES = ("blue", "orange", "green", "violet", "red")
_DASHES = ("", "dashed", "dotted")
_MOST_POINTS = 5000
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

    label: str
    hue: str
    """Its colour: the name of a variable of report.css."""
    dash: NotRequired[str]
    """``dashed`` or ``dotted``; empty if it is neither."""
    values: Sequence[float | None]
    """One for each time; none where the line is interrupted."""


class Chart(TypedDict):
    """A chart, as charts.js draws it."""

    title: str
    unit: str
    """Of its values; empty if the title says what is counted."""
    log: NotRequired[bool]
    """Whether its vertical axis is logarithmic."""
    close: NotRequired[bool]
    """Whether the axis begins near the lowest value, instead of at 0."""
    height: NotRequired[int]
    """In pixels."""
    series: list[Series]


class ChartData(TypedDict):
    """What charts.js draws: charts under each other on one time axis."""

    t_s: Sequence[float]
    """In ``unit``."""
    unit: NotRequired[str]
    """Of time, if it is not seconds."""
    phases: Sequence[PhaseBand]
    bands: Sequence[PhaseBand | InjectionBand]
    charts: list[Chart]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What a row or a column of the table beside a chart is about."""

    text: str
    series: int | None = None
    """Number of the line of the chart, from 0; none if it is not about one line."""
    hue: str = ""
    dash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart as text: a reader who sees no curve, or has no pointer, has its values from the table."""

    title: str
    """With its unit."""
    meaning: str
    """What is measured; empty if the title says it."""
    corner: str
    """What the rows are."""
    columns: Sequence[Heading]
    rows: Sequence[tuple[Heading, Sequence[str]]]
    is_wide: bool = False
    """Whether the table stands below the chart, because it has many columns."""
    events: Sequence[str] = ()
    """Sentences on what the curve shows."""


def style_of(index: int) -> tuple[str, str]:
    """Return the colour and the dash of the line of that number; when colours begin again, lines are dashed, then dotted."""
    return _HUES[index % len(_HUES)], _DASHES[min(index // len(_HUES), len(_DASHES) - 1)]


def heading_of(index: int, series: Series) -> Heading:
    """Return the heading of a line of a chart."""
    return Heading(text=series["label"], series=index, hue=series["hue"], dash=series.get("dash", ""))


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


@dataclass(frozen=True, slots=True)
class _Line:
    """What a chart draws of a measure."""

    measure: Measure
    column: str
    """Of the table ``windows``."""
    statistic: str
    """Of the table ``phases``: what says the same of a whole phase."""
    label: str
    hue: str
    """Empty for the next colour."""


def _list_lines(measure: Measure) -> list[_Line]:
    """Return what a chart draws of a measure: a line for each quantile, or one line."""
    quantiles = [name for name in _DRAWN_QUANTILES if name in measure.by_second]
    if quantiles:
        return [_Line(measure, f"{measure.name}_{name}", name, name, _DRAWN_QUANTILES[name]) for name in quantiles]
    quotients = [name for name in measure.by_second if name in measure.quotients]
    if quotients:
        return [_Line(measure, f"{measure.name}_{name}", name, measure.label, "") for name in quotients]
    of_phase = next(name for name in ("rate", "max", "count") if name in measure.statistics)
    return [_Line(measure, measure.name, of_phase, measure.label, "")]


def make_charts(run: RunTables) -> tuple[ChartData, list[Figure]]:
    """Return what the charts of a run draw, and each of them as text. A chart without values is left out."""
    windows = cut_windows(run)
    step = 1 + len(windows) // _MOST_POINTS
    measures = [
        measure for measure in MEASURES.values() if not run.record.is_observation or isinstance(measure.source, FromSamples)
    ]
    declared = {chart.title: chart for chart in CHARTS}
    declared |= {
        measure.chart: DeclaredChart(measure.chart) for measure in measures if measure.chart and measure.chart not in declared
    }
    charts: list[Chart] = []
    figures: list[Figure] = []
    for chart in declared.values():
        of_chart = [measure for measure in measures if measure.chart == chart.title]
        lines = [line for measure in of_chart for line in _list_lines(measure) if line.column in windows]
        series = [
            Series(
                label=line.label,
                hue=line.hue or colour,
                values=[None if pd.isna(value) else float(value) for value in windows[line.column].iloc[::step]],
            )
            for line, colour in zip(lines, _COLOURS, strict=False)
        ]
        values = [value for one in series for value in one["values"] if value is not None]
        if any(values) if chart.hides_zero else values:
            unit = f"{of_chart[0].unit}/s" if of_chart[0].is_counted else of_chart[0].unit
            charts.append(Chart(title=chart.title, unit=unit, log=chart.is_logarithmic, series=series))
            title = chart.title if chart.title.lower().endswith(unit) else f"{chart.title}, {unit}"
            scale = " (logarithmic axis)" if chart.is_logarithmic else ""
            figures.append(_make_figure(run, title + scale, lines, series))
    data = ChartData(
        t_s=[int(t) for t in windows["t_s"].iloc[::step]],
        phases=list_phases(run.record),
        bands=list_injections(run),
        charts=charts,
    )
    return data, figures


def _make_figure(run: RunTables, title: str, lines: Sequence[_Line], series: Sequence[Series]) -> Figure:
    headings = [
        Heading(
            text=line.label if line.statistic in _DRAWN_QUANTILES else line.measure.label_of(line.statistic),
            series=index,
            hue=one["hue"],
        )
        for index, (line, one) in enumerate(zip(lines, series, strict=True))
    ]
    meanings = {line.measure.label: line.measure.meaning for line in lines}
    return Figure(
        title=title,
        meaning="; ".join(f"{label}: {meaning}" for label, meaning in meanings.items()),
        corner="phase",
        columns=headings,
        rows=[
            (Heading(text=phase.name), [_format(run.metric(line.measure.name, line.statistic, phase.name)) for line in lines])
            for phase in run.record.started_phases
        ],
    )


def _format(value: float | None) -> str:
    return "no data" if value is None else format_value(value)


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
