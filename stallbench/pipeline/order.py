"""Are jobs claimed in the order in which they were enqueued? The histogram of ``Diff_i = abs(i - job_idx_i)`` of the Laravel article."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stallbench.pipeline.frames import as_phase_rows
from stallbench.pipeline.positions import add_position


def make_order(jobs: DataFrame, again: DataFrame | None, partitions: int) -> DataFrame:
    """Return ``diff, claims``: for each distance between the position of an execution and that of its job's enqueue, the number of executions.

    i is the position of an execution among all executions, in the order of their claims; ``job_idx_i`` that of its job among the jobs
    that were claimed and whose enqueueing was recorded, in the order of enqueueing. Of two at the same nanosecond, the job of the lower
    id is first. ``again``: ``job_id, claimed_ns`` of each execution but a job's first, if there is one. One that comes late shifts all that follow it, as
    in the article's protocol table.
    """
    both = jobs.filter("first_claimed_ns IS NOT NULL AND enqueue_recorded").select("job_id", "enqueued_ns", "first_claimed_ns")
    indexed = add_position(both, ("enqueued_ns", "job_id"), partitions, "job_idx").select(
        "job_id", "job_idx", F.col("first_claimed_ns").alias("claimed_ns")
    )
    executions = indexed
    if again is not None:
        executions = indexed.unionByName(again.select("job_id", "claimed_ns").join(indexed.select("job_id", "job_idx"), "job_id"))
    claimed = add_position(executions, ("claimed_ns", "job_id"), partitions, "i")
    return claimed.groupBy(F.abs(F.col("i") - F.col("job_idx")).alias("diff")).agg(F.count("*").alias("claims"))


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
