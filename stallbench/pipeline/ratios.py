"""Metrics that are a count over another count of the same stretch."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

RATIOS = {
    "hot_updates.share": ("hot_updates", "updates"),
    "wal_bytes.per_job": ("wal_bytes", "completed"),
    "retried.per_job": ("retried", "completed"),
}
"""By metric: the measures whose ``count`` is above and below the line."""


def make_ratios(phases: DataFrame) -> DataFrame:
    """Return the rows of ``phases`` for `RATIOS`, from those of its counts; none where the count below the line is 0 or missing."""
    counts = phases.filter("statistic = 'count'")

    def count_of(measure: str) -> DataFrame:
        return counts.filter(F.col("measure") == measure).select("phase", F.col("value").alias(measure))

    def row_of(metric: str, above: str, below: str) -> DataFrame:
        measure, _, statistic = metric.partition(".")
        both = count_of(above).join(count_of(below).filter(F.col(below) > 0), "phase")
        return both.select(
            "phase",
            F.lit(measure).alias("measure"),
            F.lit(statistic).alias("statistic"),
            (F.col(above) / F.col(below)).alias("value"),
            F.col(below).cast("long").alias("count"),
        )

    return reduce(DataFrame.unionByName, (row_of(metric, *of) for metric, of in RATIOS.items()))
