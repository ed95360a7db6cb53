"""Every metric of `stallbench.measures` in every interval: each phase, and the whole run."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.measures import MEASURES, metric_names
from stallbench.pipeline.frames import constant
from stallbench.pipeline.measurements import counted_measures, sampled_measures
from stallbench.pipeline.statistics import AMOUNT, STATISTICS
from stallbench.pipeline.time_axis import TimeAxis

_METRICS = "array<struct<measure:string,statistic:string>>"


def make_phases(figures: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return ``phase, measure, statistic, value, count``; ``count`` is the number of events or samples behind the value.

    A count is 0 in an interval without such events. A distribution, a series or a counter without any value has no row.
    """
    scope, key = F.col("scope"), F.col("measure").cast("int") * len(STATISTICS) + F.col("statistic")
    values, rates = _list_metrics()
    rows = F.array(
        _row(F.get(constant(values, _METRICS), key), F.col("value")),
        _row(F.get(constant(rates, _METRICS), key), F.col("value") / axis.interval_s(scope)),
    )
    return (
        figures.filter(~axis.is_second(scope))
        .select(axis.interval_name(scope).alias("phase"), "count", F.inline(rows))
        .filter("metric IS NOT NULL AND value IS NOT NULL")
        .select("phase", "metric.measure", "metric.statistic", "value", "count")
    )


def _list_metrics() -> tuple[list[dict[str, str] | None], list[dict[str, str] | None]]:
    """Return the metric of each measure's and each statistic's figure, by `statistic_number`, and its rate; none if it is not declared.

    The amount of a measure may be the count of another one (`counted_measures`).
    """
    amounts = {counted: name for name, counted in counted_measures().items()}
    amounts |= {name: name for name, source in sampled_measures().items() if source.is_counter}
    divided = {f"{measure.name}.{statistic}" for measure in MEASURES.values() for statistic in measure.quotients}
    declared = set(metric_names()) - divided

    def metric(name: str | None, statistic: str) -> dict[str, str] | None:
        return {"measure": name, "statistic": statistic} if name and f"{name}.{statistic}" in declared else None

    values, rates = [], []
    for measure in MEASURES:
        for statistic in STATISTICS:
            is_amount = statistic == AMOUNT
            values.append(metric(amounts.get(measure), "count") if is_amount else metric(measure, statistic))
            rates.append(metric(amounts.get(measure), "rate") if is_amount else None)
    return values, rates


def _row(metric: Column, value: Column) -> Column:
    return F.struct(metric.alias("metric"), value.cast("double").alias("value"))
