"""Every metric of `stallbench.measures` in every interval: each phase, and the whole run."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.measures import COUNT, DISTRIBUTION, SERIES, metric_names
from stallbench.pipeline.measurements import counted_measures, sampled_measures
from stallbench.pipeline.time_axis import TimeAxis

_OF_VALUES = tuple(dict.fromkeys((*DISTRIBUTION, *SERIES)))


def make_phases(measured: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return ``phase, measure, statistic, value, count``; ``count`` is the number of events or samples behind the value.

    What was counted is 0 in an interval without such events; a distribution, a series or a counter without any value has no row.
    """
    counters = [name for name, source in sampled_measures().items() if source.is_counter]
    names = F.create_map(*(F.lit(text) for name, counted in counted_measures().items() for text in (counted, name)))
    counted = names[F.col("measure")]
    amount = F.when(F.col("measure").isin(counters), F.col("increase")).when(counted.isNotNull(), F.col("weight"))
    behind = F.when(counted.isNotNull(), F.col("weight")).otherwise(F.col("count"))
    rows = [_row(F.col("measure"), statistic, F.col(statistic), F.col("count")) for statistic in _OF_VALUES]
    rows += [
        _row(F.coalesce(counted, F.col("measure")), statistic, value, behind)
        for statistic, value in zip(COUNT, (amount, amount / _duration_s(axis)), strict=True)
    ]
    of_intervals = measured.filter(F.col("interval").isNotNull()).select(
        F.col("interval").alias("phase"), F.inline(F.array(*rows))
    )
    is_metric = F.concat_ws(".", "measure", "statistic").isin(metric_names())
    return of_intervals.filter(is_metric & F.col("value").isNotNull())


def _row(measure: Column, statistic: str, value: Column, count: Column) -> Column:
    return F.struct(
        measure.alias("measure"),
        F.lit(statistic).alias("statistic"),
        value.cast("double").alias("value"),
        count.cast("long").alias("count"),
    )


def _duration_s(axis: TimeAxis) -> Column:
    """How long the row's interval is; null if it has no length."""
    duration_s = F.lit(None).cast("double")
    for interval in axis.intervals:
        if interval.duration_s > 0:
            duration_s = F.when(F.col("interval") == interval.name, interval.duration_s).otherwise(duration_s)
    return duration_s
