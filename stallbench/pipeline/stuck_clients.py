"""Which sessions waited for their client to read, and from when to when?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord

_SUBJECT = "client_write:"


def make_stuck_clients(samples: DataFrame, record: RunRecord, axis: TimeAxis) -> DataFrame:
    """Return a row for each session that was stuck in handing something over to its client, from the first sample that found it to the last."""

    def of(metric: str, column: str) -> Column:
        return F.max_by(F.when(F.col("metric") == metric, F.col(column)), F.when(F.col("metric") == metric, F.col("t_ns")))

    stuck_s = F.when(F.col("metric") == "stuck_s", F.col("number"))
    name = F.lit(None).cast("string")
    for longrunner in record.longrunners:
        name = F.when(F.substring_index("application", ":", -1) == longrunner.name, longrunner.name).otherwise(name)
    return (
        samples.filter(F.col("subject").startswith(_SUBJECT))
        .groupBy(F.col("source").alias("server"), F.substring_index("subject", ":", -2).alias("session"))
        .agg(
            of("pid", "number").cast("long").alias("pid"),
            of("application", "value").alias("application"),
            of("state", "value").alias("state"),
            axis.t_s(F.min(F.col("t_ns") - stuck_s * NS_PER_S)).alias("from_s"),
            axis.t_s(F.max("t_ns")).alias("to_s"),
            F.max(stuck_s).alias("stuck_s"),
        )
        .withColumn("longrunner", name)
    )
