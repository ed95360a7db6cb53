"""Computes statistics of the measurements in each second and each interval, as *figures*: ``scope, measure, statistic, value, count``.

A scope is a second or an interval (`stallbench.pipeline.time_axis`); ``count`` is the number of events or samples behind the value.

A percentile is the smallest value that has at least that share of the values at or below it (nearest rank), and is exact. Values are first
counted in buckets whose width is a small share of the value. The counts show which bucket contains the rank; only the values in these
buckets are then sorted. No step holds or sorts all values, and each step is a sum that can be distributed over several machines.

The figures do not depend on how many machines share the work: whole numbers are added as such, and fractions in the order of their time.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.measure_definition import QUANTILES
from stallbench.measures import MEASURES
from stallbench.pipeline.frames import join_rows
from stallbench.pipeline.time_axis import FIRST_INTERVAL, TimeAxis

AMOUNT = "amount"
"""The statistic that is the number of events, or the growth of a counter."""
STATISTICS = (*QUANTILES, "max", "mean", AMOUNT, "first", "last", "min", "slope")
_BUCKETS_PER_E = 64
"""Values in one bucket differ by at most 1/64: more buckets take longer to count, fewer leave more values to sort."""
_NS_PER_MS = 1_000_000
_RANKS = pa.schema(
    [
        ("scope", pa.int32()),
        ("measure", pa.int16()),
        ("statistic", pa.int16()),
        ("bucket", pa.int16()),
        ("rank", pa.int64()),
        ("count", pa.int64()),
    ]
)


def summarize_events(measurements: DataFrame, axis: TimeAxis) -> pd.DataFrame:
    """Return the figures of measurements of events, values in ms. Spark is asked twice: for the counts, and for what they do not show."""
    summary = _collect(_find_buckets(_count_in_buckets(measurements, axis)))
    known = [
        _as_figures(summary, name, summary[column] / _NS_PER_MS, summary["count"])
        for name, column in ({name: f"{name}_known" for name in QUANTILES} | {"max": "max", "mean": "mean"}).items()
    ]
    known.append(_as_figures(summary, AMOUNT, summary["weight"], summary["weight"]))
    if len(ranks := _list_ranks(summary)):
        of_events = _collect(_sort_buckets(measurements, ranks, axis))
        known.append(_as_figures(of_events, of_events["statistic"], of_events["value_ns"] / _NS_PER_MS, of_events["count"]))
    figures = join_rows(known)
    return figures.assign(measure=figures["measure"].map(dict(enumerate(MEASURES))))


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
    """Return a row for each scope and measure: ``weight, count, mean, max`` (ns), and of each percentile either its value or where it is.

    ``<percentile>_known``: its value, where the counts show it. Otherwise ``<percentile>_bucket``, and ``<percentile>_rank`` in that bucket.
    """
    of_one = Window.partitionBy("scope", "measure").orderBy("bucket")
    up_to = F.sum("count").over(of_one.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    total = F.sum("count").over(of_one.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    ranked = counted.select("*", up_to.alias("up_to"), total.alias("total"))
    figures = [
        F.sum("weight").alias("weight"),
        F.sum("count").alias("count"),
        (F.sum("sum").cast("double") / F.sum("count")).alias("mean"),
        F.max("max").alias("max"),
    ]
    before = F.col("up_to") - F.col("count")
    for name, percent in QUANTILES.items():
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


def _list_ranks(summary: pd.DataFrame) -> pd.DataFrame:
    """Return ``scope, measure, statistic, bucket, rank, count`` of each percentile whose value the counts do not show; of seconds, those that `windows` has."""
    by_second = {(list(MEASURES).index(name), each) for name, measure in MEASURES.items() for each in measure.by_second}
    found = []
    for name in QUANTILES:
        ranks = summary[["scope", "measure", f"{name}_bucket", f"{name}_rank", "count"]].dropna()
        is_shown = (ranks["scope"] >= FIRST_INTERVAL) | ranks["measure"].map(
            lambda measure, name=name: (measure, name) in by_second
        )
        ranks = ranks[is_shown].set_axis(["scope", "measure", "bucket", "rank", "count"], axis=1)
        found.append(ranks.assign(statistic=STATISTICS.index(name)))
    return join_rows(found)


def _sort_buckets(measurements: DataFrame, ranks: pd.DataFrame, axis: TimeAxis) -> DataFrame:
    """Return ``scope, measure, statistic, value_ns, count`` of ``ranks``, from the values in their buckets."""
    spark = measurements.sparkSession
    wanted = spark.createDataFrame(pa.Table.from_pandas(ranks[_RANKS.names], _RANKS, preserve_index=False))
    values = measurements.filter("value_ns IS NOT NULL").select(
        F.explode(axis.scopes(F.col("t_ns"))).alias("scope"), "measure", _bucket().alias("bucket"), "value_ns"
    )
    in_bucket = Window.partitionBy("scope", "measure", "statistic").orderBy("value_ns")
    return (
        values.join(F.broadcast(wanted), ["scope", "measure", "bucket"])
        .withColumn("position", F.row_number().over(in_bucket))
        .filter(F.col("position") == F.col("rank"))
        .select("scope", "measure", "statistic", "value_ns", "count")
    )


def _collect(frame: DataFrame) -> pd.DataFrame:
    """Collect rows that grow with a run's length; whole numbers stay exact, even beside missing ones."""
    types = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int64Dtype(), pa.int16(): pd.Int64Dtype()}
    collected: pd.DataFrame = frame.toArrow().to_pandas(types_mapper=types.get)
    return collected


def _as_figures(
    rows: pd.DataFrame, statistic: str | pd.Series[Any], value: pd.Series[Any], count: pd.Series[Any]
) -> pd.DataFrame:
    if not isinstance(statistic, str):
        statistic = statistic.map(dict(enumerate(STATISTICS)))
    figures = rows[["scope", "measure"]].astype("int64").assign(statistic=statistic, value=value.astype("Float64"), count=count)
    return figures.dropna(subset=["value"]).astype({"value": "float64", "count": "int64"})


def _bucket() -> Column:
    """The bucket of ``value_ns``: its logarithm in steps, which orders buckets as it orders values, below zero too."""
    value = F.col("value_ns")
    return F.floor(F.signum(value) * F.log1p(F.abs(value).cast("double")) * _BUCKETS_PER_E).cast("short")
