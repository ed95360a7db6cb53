"""Computes statistics of the measurements in each second and each interval, as *figures*: ``scope, measure, statistic, value, count``.

A scope is a second or an interval (`stallbench.pipeline.time_axis`); ``count`` is the number of events or samples behind the value.

A percentile is the smallest value that has at least that share of the values at or below it (nearest rank), and is exact. Values are first
counted in buckets whose width is a small share of the value. The counts show which bucket contains the rank; only the values in these
buckets are then sorted. No step holds or sorts all values, and each step is a sum that can be distributed over several machines.

The figures do not depend on how many machines share the work: whole numbers are added as such, and fractions in the order of their time.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.measures import MEASURES
from stallbench.pipeline.measurements import measure_number
from stallbench.pipeline.time_axis import TimeAxis

PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}
AMOUNT = "amount"
"""The statistic that is the number of events, or the growth of a counter."""
STATISTICS = (*PERCENTILES, "max", "mean", AMOUNT, "first", "last", "min", "slope")
_BUCKETS_PER_E = 64
"""Values in one bucket differ by at most 1/64: more buckets take longer to count, fewer leave more values to sort."""
_NS_PER_MS = 1_000_000


def statistic_number(name: str) -> int:
    """Return the number that ``statistic`` has instead of a name."""
    return STATISTICS.index(name)


def summarize_events(measurements: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return the figures of measurements of events, values in ms."""
    summary = _find_buckets(_count_in_buckets(measurements, axis)).persist()
    values_ns = {name: F.col(f"{name}_known") for name in PERCENTILES} | {
        "max": F.col("max"),
        "mean": F.col("sum").cast("double") / F.col("count"),
    }
    in_ms = [
        F.struct(_number(name), (value_ns / _NS_PER_MS).alias("value"), F.col("count")) for name, value_ns in values_ns.items()
    ]
    amount = F.struct(_number(AMOUNT), F.col("weight").cast("double").alias("value"), F.col("weight").alias("count"))
    known = summary.select("scope", "measure", F.inline(F.array(*in_ms, amount))).filter("value IS NOT NULL")
    return known.unionByName(_sort_buckets(measurements, summary, axis))


def _count_in_buckets(measurements: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return ``weight, count, min, max, sum`` of each scope, measure and bucket.

    Each measurement is counted once, for its second and its phase; only the counts are then added up for each scope.
    """
    t_ns = F.col("t_ns")
    placed = measurements.select(
        axis.second(t_ns).alias("second"), axis.phase_number(t_ns).alias("phase"), axis.is_in_run(t_ns).alias("in_run"),
        "measure", _bucket().alias("bucket"), "value_ns", "weight",
    )  # fmt: skip
    counted = placed.groupBy("second", "phase", "in_run", "measure", "bucket").agg(
        F.sum("weight").alias("weight"),
        F.count("value_ns").alias("count"),
        F.min("value_ns").alias("min"),
        F.max("value_ns").alias("max"),
        F.sum("value_ns").alias("sum"),
    )
    scopes = axis.scopes_of(F.col("second"), F.col("phase"), F.col("in_run"))
    return (
        counted.select("*", F.explode(scopes).alias("scope"))
        .filter("scope IS NOT NULL")
        .groupBy("scope", "measure", "bucket")
        .agg(
            *(F.sum(name).alias(name) for name in ("weight", "count")),
            F.sum(F.col("sum").cast("decimal(38,0)")).alias("sum"),
            F.min("min").alias("min"),
            F.max("max").alias("max"),
        )
    )


def _find_buckets(counted: DataFrame) -> DataFrame:
    """Return a row for each scope and measure: ``weight, count, sum, max``, and of each percentile either its value or where it is.

    ``<percentile>_known``: its value, where the counts show it. Otherwise ``<percentile>_bucket``, and ``<percentile>_rank`` in that bucket.
    """
    of_one = Window.partitionBy("scope", "measure").orderBy("bucket")
    up_to = F.sum("count").over(of_one.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    total = F.sum("count").over(of_one.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    ranked = counted.select("*", up_to.alias("up_to"), total.alias("total"))
    figures = [
        F.sum("weight").alias("weight"),
        F.sum("count").alias("count"),
        F.sum("sum").alias("sum"),
        F.max("max").alias("max"),
    ]
    before = F.col("up_to") - F.col("count")
    for name, percent in PERCENTILES.items():
        rank = F.floor((F.col("total") * percent + 99) / 100).cast("long")
        is_here = (F.col("up_to") >= rank) & (before < rank)
        known = F.when((rank == before + 1) | (F.col("min") == F.col("max")), F.col("min")).when(
            rank == F.col("up_to"), F.col("max")
        )
        figures += [
            F.max(F.when(is_here, known)).alias(f"{name}_known"),
            F.max(F.when(is_here & known.isNull(), F.col("bucket"))).alias(f"{name}_bucket"),
            F.max(F.when(is_here & known.isNull(), rank - before)).alias(f"{name}_rank"),
        ]
    return ranked.groupBy("scope", "measure").agg(*figures)


def _sort_buckets(measurements: DataFrame, summary: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return the figures of the percentiles whose value the counts do not show, from the values in their buckets."""
    wanted = [
        F.struct(_number(name), F.col(f"{name}_bucket").alias("bucket"), F.col(f"{name}_rank").alias("rank"))
        for name in PERCENTILES
    ]
    ranks = summary.select("scope", "measure", "count", F.inline(F.array(*wanted))).filter(
        F.col("bucket").isNotNull() & (~axis.is_second(F.col("scope")) | _is_shown_by_second())
    )
    values = measurements.filter("value_ns IS NOT NULL").select(
        F.explode(axis.scopes(F.col("t_ns"))).alias("scope"), "measure", _bucket().alias("bucket"), "value_ns"
    )
    in_bucket = Window.partitionBy("scope", "measure", "statistic").orderBy("value_ns")
    return (
        values.join(F.broadcast(ranks), ["scope", "measure", "bucket"])
        .withColumn("position", F.row_number().over(in_bucket))
        .filter(F.col("position") == F.col("rank"))
        .select("scope", "measure", "statistic", (F.col("value_ns") / _NS_PER_MS).alias("value"), "count")
    )


def _is_shown_by_second() -> Column:
    """Whether a row's statistic is one of those that the table ``windows`` has."""
    shown = [
        len(STATISTICS) * measure_number(name) + statistic_number(statistic)
        for name, measure in MEASURES.items()
        for statistic in measure.by_second
        if statistic in PERCENTILES
    ]
    return (F.col("measure").cast("int") * len(STATISTICS) + F.col("statistic")).isin(shown)


def _bucket() -> Column:
    """The bucket of ``value_ns``: its logarithm in steps, which orders buckets as it orders values, below zero too."""
    value = F.col("value_ns")
    return F.floor(F.signum(value) * F.log1p(F.abs(value).cast("double")) * _BUCKETS_PER_E).cast("short")


def _number(statistic: str) -> Column:
    return F.lit(statistic_number(statistic)).alias("statistic")
