"""How far from first come, first served: ``Diff_i = abs(i - job_idx_i)`` over all claims."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

ROWS_A_PARTITION = 2_000_000


def make_order(jobs: DataFrame, rows_a_partition: int = ROWS_A_PARTITION) -> DataFrame:
    """Return the histogram ``diff, claims`` over the jobs that were enqueued and claimed on record.

    i is the job's position in the order of first claims, ``job_idx_i`` its position in the order of enqueueing, both over
    these jobs. Source: "Laravel queueing optimization" (2017).
    """
    both = jobs.where(F.col("enqueued_ns").isNotNull() & F.col("first_claimed_ns").isNotNull())
    times = both.select("job_id", "enqueued_ns", "first_claimed_ns").persist()
    partitions = 1 + times.count() // rows_a_partition
    by_enqueue = rank(times, ["enqueued_ns", "job_id"], "job_idx", partitions)
    by_claim = rank(by_enqueue, ["first_claimed_ns", "job_id"], "i", partitions)
    diff = F.abs(F.col("i") - F.col("job_idx")).alias("diff")
    return by_claim.select(diff).groupBy("diff").agg(F.count("*").alias("claims"))


def rank(rows: DataFrame, order: list[str], name: str, partitions: int) -> DataFrame:
    """Add the position of each row in ``order``, from 0, as column ``name``, without bringing all rows into one partition.

    Rows are split into ranges; each is numbered by itself and moved up by the sizes of those before it.
    """
    ranged = rows.repartitionByRange(partitions, *order).withColumn("_part", F.spark_partition_id())
    numbered = ranged.withColumn("_n", F.row_number().over(Window.partitionBy("_part").orderBy(*order)).cast("long")).persist()
    if partitions == 1:
        return numbered.withColumn(name, F.col("_n") - 1).drop("_part", "_n")
    sizes = {row["_part"]: row["count"] for row in numbered.groupBy("_part").count().collect()}
    offset, before = F.lit(0), 0
    for part in sorted(sizes):
        offset = F.when(F.col("_part") == part, F.lit(before)).otherwise(offset)
        before += sizes[part]
    return numbered.withColumn(name, F.col("_n") - 1 + offset).drop("_part", "_n")
