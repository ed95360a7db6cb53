"""How long did the queue's tables wait for a vacuum, and was an autovacuum worker free?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.nanoseconds import NS_PER_S

_SLACK_S = 0.5
"""By how much the beginning of the same wait may differ between two samples."""


def make_vacuum_waits(samples: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return a row for each time that a table was due for a vacuum and got none, from when it was due to the last sample that found it so.

    ``starved_s`` is how much of it lay between samples that found every worker busy.
    """
    overdue = samples.filter("metric = 'vacuum_overdue_s' AND number > 0").select(
        F.substring_index("subject", ":", -1).alias("table"), "t_ns", F.col("number").alias("overdue_s")
    )
    workers = (
        samples.filter("metric IN ('autovacuum_workers_busy', 'autovacuum_workers_free', 'doing')")
        .groupBy("t_ns")
        .agg(
            F.max(F.when(F.col("metric") == "autovacuum_workers_busy", F.col("number"))).cast("int").alias("workers"),
            F.max(F.when(F.col("metric") == "autovacuum_workers_free", F.col("number"))).alias("free"),
            F.collect_set(F.when(F.col("metric") == "doing", F.col("value"))).alias("doing"),
        )
    )
    one_table = Window.partitionBy("table").orderBy("t_ns")
    began_s = F.col("t_ns") / NS_PER_S - F.col("overdue_s")
    begins = F.coalesce((began_s - F.lag(began_s).over(one_table) > _SLACK_S).cast("int"), F.lit(1))
    waits = overdue.withColumn("begins", begins).withColumn("wait", F.sum("begins").over(one_table))
    in_wait = Window.partitionBy("table", "wait").orderBy("t_ns")
    since_last_s = F.coalesce((F.col("t_ns") - F.lag("t_ns").over(in_wait)) / NS_PER_S, F.col("overdue_s"))
    polls = waits.withColumn("since_last_s", since_last_s).join(workers, "t_ns")
    starved = F.col("free") == 0
    return (
        polls.groupBy("table", "wait")
        .agg(
            axis.t_s(F.min(F.col("t_ns") - (F.col("overdue_s") * NS_PER_S).cast("long"))).alias("from_s"),
            axis.t_s(F.max("t_ns")).alias("to_s"),
            F.max("overdue_s").alias("waited_s"),
            F.coalesce(F.sum(F.when(starved, F.col("since_last_s"))), F.lit(0.0)).alias("starved_s"),
            F.max(F.when(starved, F.col("workers"))).alias("workers"),
            F.array_join(F.array_sort(F.array_distinct(F.flatten(F.collect_list(F.when(starved, F.col("doing")))))), ", ").alias(
                "busy_with"
            ),
        )
        .drop("wait")
    )
