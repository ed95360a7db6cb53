"""What did each SQL statement cost its server in each phase?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis

SUBJECT = "statement:"


def make_statements(samples: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return a row for each statement and phase in which it was executed: ``calls, total_ms, row_count, buffers``, of all servers together.

    Counts are the growth from one sample to the next; one that has become smaller was restarted at 0. The first sample of a statement shows no
    growth.
    """
    counts = samples.filter(F.col("subject").startswith(SUBJECT) & F.col("number").isNotNull())
    before = F.lag("number").over(Window.partitionBy("source", "subject", "metric").orderBy("t_ns"))
    grown = F.when(F.col("number") < before, F.col("number")).otherwise(F.col("number") - before)

    def of(metric: str) -> Column:
        return F.sum(F.when(F.col("metric") == metric, F.col("grown")))

    return (
        counts.withColumn("grown", grown)
        .groupBy(axis.phase(F.col("t_ns")).alias("phase"), F.substring_index("subject", ":", -1).alias("statement"))
        .agg(
            of("calls").cast("long").alias("calls"),
            F.round(of("total_ms"), 3).alias("total_ms"),
            of("rows").cast("long").alias("row_count"),
            of("buffers").cast("long").alias("buffers"),
        )
        .filter("phase IS NOT NULL AND calls > 0")
    )
