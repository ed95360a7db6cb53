"""What the points of each second and of each stretch come to: their number, their distribution, their course.

Seconds and stretches are aggregated in one pass. A percentile is the smallest value that has at least that share of the values at or below
it (nearest rank). It is exact among up to `EXACT_UP_TO` values; among n more than that, the rank is off by at most n / `EXACT_UP_TO`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis

EXACT_UP_TO = 20_000
PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def measure(points: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return a row for each measure in each second (``t_s``) and each stretch (``stretch``); the other of the two is null.

    Columns: ``weight`` (how many events), ``increase`` (of a counter), ``count`` (of values), ``p50, p95, p99``, ``min, max, mean``,
    ``first, last`` (in time), ``slope`` (by least squares, per second).
    """
    t_ns = F.col("t_ns")
    second = F.struct(axis.second(t_ns).alias("t_s"), F.lit(None).cast("string").alias("stretch"))
    stretches = F.transform(
        axis.stretch_names(t_ns), lambda name: F.struct(F.lit(None).cast("int").alias("t_s"), name.alias("stretch"))
    )
    spread = points.select("*", F.inline(F.concat(F.array(second), stretches)))
    measured = spread.groupBy("t_s", "stretch", "measure").agg(
        F.sum("weight").alias("weight"),
        F.sum("increase").alias("increase"),
        F.count("value").alias("count"),
        F.percentile_approx("value", list(PERCENTILES.values()), EXACT_UP_TO).alias("percentiles"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
        F.avg("value").alias("mean"),
        F.min_by("value", "t_ns").alias("first"),
        F.max_by("value", "t_ns").alias("last"),
        F.regr_slope("value", axis.t_s(t_ns)).alias("slope"),
    )
    percentiles = [F.col("percentiles")[index].alias(name) for index, name in enumerate(PERCENTILES)]
    return measured.select("*", *percentiles).drop("percentiles")
