"""Every metric of `stallbench.measures` in every stretch: each phase, and the whole run."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.measures import metric_names
from stallbench.pipeline.measurements import COUNTED, SAMPLED
from stallbench.pipeline.time_axis import TimeAxis

_COUNTERS = [name for name, source in SAMPLED.items() if source.is_counter]
_OF_VALUES = ("p50", "p95", "p99", "max", "mean", "first", "last", "min", "slope")


def make_phases(measured: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return ``phase, measure, statistic, value, count``; ``count`` is the number of events or samples behind the value.

    What was counted is 0 in a stretch without such events; a distribution, a series or a counter without any value has no row.
    """
    counted = F.create_map(*(F.lit(text) for name, points in COUNTED.items() for text in (points, name)))[F.col("measure")]
    amount = F.when(F.col("measure").isin(_COUNTERS), F.col("increase")).when(counted.isNotNull(), F.col("weight"))
    behind = F.when(counted.isNotNull(), F.col("weight")).otherwise(F.col("count"))
    rows = [_row(F.col("measure"), statistic, F.col(statistic), F.col("count")) for statistic in _OF_VALUES]
    rows += [
        _row(F.coalesce(counted, F.col("measure")), statistic, value, behind)
        for statistic, value in (("count", amount), ("rate", amount / _duration_s(axis)))
    ]
    of_stretches = measured.filter("stretch IS NOT NULL").select(F.col("stretch").alias("phase"), F.inline(F.array(*rows)))
    is_metric = F.concat_ws(".", "measure", "statistic").isin(metric_names())
    return of_stretches.filter(is_metric & F.col("value").isNotNull())


def _row(measure: Column, statistic: str, value: Column, count: Column) -> Column:
    return F.struct(
        measure.alias("measure"),
        F.lit(statistic).alias("statistic"),
        value.cast("double").alias("value"),
        count.cast("long").alias("count"),
    )


def _duration_s(axis: TimeAxis) -> Column:
    """How long the row's stretch is; null if it has no length."""
    duration_s = F.lit(None).cast("double")
    for interval in axis.intervals:
        if interval.duration_s > 0:
            duration_s = F.when(F.col("stretch") == interval.name, interval.duration_s).otherwise(duration_s)
    return duration_s
