"""The kinds of panels: curves over time, a current value, and tables with a line for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from grafana_foundation_sdk.builders import common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus as prometheus_model

from dashboards.variables import SOURCE

JOBS_PER_SECOND, SECONDS, BYTES, BYTES_PER_SECOND, RATIO, COUNT = "suffix: jobs/s", "s", "bytes", "Bps", "percentunit", "short"
Panel: TypeAlias = timeseries.Panel | stat.Panel | table.Panel


@dataclass(frozen=True, slots=True)
class Query:
    """One Prometheus query, and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A heading, and the panels below it."""

    title: str
    panels: Sequence[Panel] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Limits:
    """The value from which a figure needs attention, and the value from which it is bad."""

    look: float
    bad: float

    def steps(self) -> build.ThresholdsConfig:
        """Return Grafana's threshold steps. If ``bad`` is the lower one, low values are bad."""
        colours = ("green", "yellow", "red") if self.look < self.bad else ("red", "yellow", "green")
        low, high = sorted((self.look, self.bad))
        steps = [model.Threshold(value=value, color=colour) for value, colour in zip((None, low, high), colours, strict=True)]
        return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)


def curve(
    title: str,
    means: str,
    unit: str,
    *queries: Query,
    limits: Limits | None = None,
    stacked: bool = False,
    width: int = 12,
    link: build.DashboardLink | None = None,
) -> timeseries.Panel:
    """Return curves over time. ``means``: what the curves show, and what to do."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(means)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .span(width)
        .height(8)
        .interval("1s")
        .line_width(1)
        .fill_opacity(30 if stacked else 5)
        .show_points(common_model.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(common_model.LegendDisplayMode.TABLE)
            .placement(common_model.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(common.VizTooltipOptions().mode(common_model.TooltipDisplayMode.MULTI).sort(common_model.SortOrder.DESCENDING))
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(common_model.StackingMode.NORMAL).group("A"))
    if limits:
        panel.thresholds(limits.steps())
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(common_model.GraphThresholdsStyleMode.DASHED))
    if link:
        panel.links([link])
    for letter, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(_target(query, letter).range())
    return panel


def figure(
    title: str, means: str, unit: str, query: Query, *, limits: Limits | None = None, shows_name: bool = False
) -> stat.Panel:
    """Return the current value, or with ``shows_name`` the name of its series."""
    panel = (
        stat.Panel()
        .title(title)
        .description(means)
        .datasource(SOURCE)
        .unit(unit)
        .span(4)
        .height(4)
        .interval("1s")
        .no_value("-")
        .graph_mode(common_model.BigValueGraphMode.NONE)
        .color_mode(common_model.BigValueColorMode.VALUE)
        .text_mode(common_model.BigValueTextMode.NAME if shows_name else common_model.BigValueTextMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target(query, "A").instant())
    )
    if limits:
        panel.thresholds(limits.steps())
    return panel


def matrix(
    title: str, means: str, unit: str, query: Query, *, columns: str = "phase", limits: Limits | None = None
) -> table.Panel:
    """Return a table with a line for each run and a column for each value of the label ``columns``."""
    panel = (
        table.Panel()
        .title(title)
        .description(means)
        .datasource(SOURCE)
        .unit(unit)
        .span(12)
        .height(8)
        .filterable(True)
        .no_value("-")
        .with_target(_target(query, "A").instant().format(prometheus_model.PromQueryFormat.TABLE))
        .with_transformation(
            model.DataTransformerConfig(
                id_val="groupingToMatrix", options={"rowField": "run", "columnField": columns, "valueField": "Value"}
            )
        )
    )
    if limits:
        panel.thresholds(limits.steps())
        panel.override_by_regexp(".*", [model.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"})])
    return panel


def _target(query: Query, letter: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().datasource(SOURCE).ref_id(letter).expr(query.expr).legend_format(query.legend or "__auto")
