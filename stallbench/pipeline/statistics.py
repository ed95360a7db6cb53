"""What the measurements of each second and of each interval come to.

Seconds and intervals are aggregated in one pass. A percentile is the smallest value that has at least that share of the values at or below
it (nearest rank). It is exact among up to `EXACT_UP_TO` values; among n more than that, the rank is off by at most n / `EXACT_UP_TO`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis

EXACT_UP_TO = 100_000
PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def summarize_events(measurements: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return a row for each measure in each second (``t_s``) and each interval (``interval``); the other of the two is null.

    Columns: ``weight`` (how many events), ``count`` (of values), ``p50, p95, p99, max, mean``.
    """
    measured = _spread(measurements, axis).agg(
        F.sum("weight").alias("weight"),
        F.count("value").alias("count"),
        F.percentile_approx("value", list(PERCENTILES.values()), EXACT_UP_TO).alias("percentiles"),
        F.max("value").alias("max"),
        F.avg("value").alias("mean"),
    )
    percentiles = [F.col("percentiles")[index].alias(name) for index, name in enumerate(PERCENTILES)]
    return _name_scopes(measured.select("*", *percentiles).drop("percentiles"), axis)


def summarize_samples(measurements: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return rows as `summarize_events` does, for what was sampled.

    Columns: ``count`` (of samples), ``first, last`` (in time), ``min, max, mean, slope`` (by least squares, per second), and ``increase``
    (of a counter; null if only its first sample is there).
    """
    measured = _spread(measurements, axis).agg(
        F.count("value").alias("count"),
        F.min_by("value", "t_ns").alias("first"),
        F.max_by("value", "t_ns").alias("last"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
        F.avg("value").alias("mean"),
        F.regr_slope("value", axis.t_s(F.col("t_ns"))).alias("slope"),
        F.sum("increase").alias("increase"),
    )
    return _name_scopes(measured, axis)


def _spread(measurements: DataFrame, axis: TimeAxis) -> GroupedData:
    spread = measurements.select("*", F.explode(axis.scopes(F.col("t_ns"))).alias("scope")).filter("scope IS NOT NULL")
    return spread.groupBy("scope", "measure")


def _name_scopes(measured: DataFrame, axis: TimeAxis) -> DataFrame:
    scope = F.col("scope")
    return measured.select("*", axis.second_of(scope).alias("t_s"), axis.interval_of(scope).alias("interval")).drop("scope")
