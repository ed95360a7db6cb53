"""Are jobs claimed in the order in which they were enqueued? The histogram of ``Diff_i = abs(i - job_idx_i)`` of the Laravel article.

A position among all jobs is global, but no partition ever holds all jobs. They are partitioned by range and sorted in each partition; a
job's position is its row in its partition plus the sizes of the partitions before it.
"""

from __future__ import annotations

from itertools import accumulate

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.pipeline.frames import as_phase_rows

JOBS_PER_PARTITION = 2_000_000
"""A sort of this many is quicker in one partition than in two: for two, Spark first samples what to put where."""
_ROW_BITS = 33
_ROW_MASK = (1 << _ROW_BITS) - 1


def choose_partitions(claimed_jobs: int) -> int:
    """Return over how many partitions so many jobs are sorted."""
    return 1 + claimed_jobs // JOBS_PER_PARTITION


def make_order(jobs: DataFrame, again: DataFrame, partitions: int) -> DataFrame:
    """Return ``diff, claims``: how many executions began so many positions away from where their job was enqueued.

    i is the position of an execution among all executions, in the order of their claims; ``job_idx_i`` that of its job among the jobs
    that were claimed and whose enqueueing was recorded, in the order of enqueueing. Of two at the same nanosecond, the job of the lower
    id is first. ``again``: ``job_id, claimed_ns`` of each execution but a job's first. One that comes late shifts all that follow it, as
    in the article's protocol table.
    """
    both = jobs.filter("first_claimed_ns IS NOT NULL AND enqueue_recorded").select("job_id", "enqueued_ns", "first_claimed_ns")
    enqueued = _number_rows(both, "enqueued_ns", partitions, "enqueued_row").persist()
    job_idx = _position(F.col("enqueued_row"), _offsets(enqueued, "enqueued_row", partitions))
    indexed = enqueued.select("job_id", job_idx.alias("job_idx"), F.col("first_claimed_ns").alias("claimed_ns"))
    further = again.select("job_id", "claimed_ns").join(indexed.select("job_id", "job_idx"), "job_id")
    executions = indexed.unionByName(further)
    claimed = _number_rows(executions, "claimed_ns", partitions, "claimed_row").persist()
    i = _position(F.col("claimed_row"), _offsets(claimed, "claimed_row", partitions))
    return claimed.groupBy(F.abs(i - F.col("job_idx")).alias("diff")).agg(F.count("*").alias("claims"))


def make_order_metrics(order: DataFrame) -> DataFrame:
    """Return the histogram's mean, 99th percentile and maximum as rows of ``phases``, of the whole run: an order has no phases."""
    total = F.sum("claims")
    so_far = F.sum("claims").over(Window.orderBy("diff").rowsBetween(Window.unboundedPreceding, Window.currentRow))
    all_claims = F.sum("claims").over(Window.partitionBy())
    ranked = order.select("diff", "claims", (so_far >= F.lit(0.99) * all_claims).alias("is_above"))
    figures = ranked.agg(
        total.alias("count"),
        (F.sum(F.col("diff") * F.col("claims")) / total).alias("mean"),
        F.min(F.when(F.col("is_above"), F.col("diff"))).alias("p99"),
        F.max("diff").alias("max"),
    ).filter("count IS NOT NULL")
    return as_phase_rows(figures, "order_diff", ("mean", "p99", "max"))


def _number_rows(jobs: DataFrame, by: str, partitions: int, name: str) -> DataFrame:
    """Sort by range; the number has the partition in its upper bits and the row in the partition in its lower `_ROW_BITS`."""
    ordered = jobs.repartitionByRange(partitions, by, "job_id").sortWithinPartitions(by, "job_id")
    return ordered.withColumn(name, F.monotonically_increasing_id())


def _offsets(numbered: DataFrame, row: str, partitions: int) -> list[int]:
    """How many jobs are in the partitions before each."""
    counted = numbered.groupBy(F.shiftright(row, _ROW_BITS).alias("partition")).count().collect()
    sizes = {row["partition"]: row["count"] for row in counted}
    return list(accumulate((sizes.get(number, 0) for number in range(partitions)), initial=0))[:-1]


def _position(row: Column, offsets: list[int]) -> Column:
    offset = F.element_at(F.lit(offsets), F.shiftright(row, _ROW_BITS).cast("int") + 1)
    return offset + row.bitwiseAND(_ROW_MASK)
