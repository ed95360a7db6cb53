"""Are jobs claimed in the order in which they were enqueued? The histogram of ``Diff_i = abs(i - job_idx_i)`` of the Laravel article."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from stallbench.pipeline.phases import as_phase_rows
from stallbench.pipeline.positions import add_position, add_running_total


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


def observe_order(order: DataFrame, partitions: int, seen: Observation) -> DataFrame:
    """Return ``order``, and let ``seen`` count what `make_order_metrics` needs while it is being written.

    ``partitions``: over how many the histogram is sorted. If the order is not kept, it may have a row for each claim.
    """
    added = add_running_total(order.select("diff", "claims"), "diff", "claims", partitions, "so_far", "all_claims")
    is_above = F.col("so_far") >= F.lit(0.99) * F.col("all_claims")
    return added.observe(
        seen,
        F.sum("claims").alias("claims"),
        F.sum(F.col("diff") * F.col("claims")).alias("distance"),
        F.min(F.when(is_above, F.col("diff"))).alias("p99"),
        F.max("diff").alias("max"),
    )


def make_order_metrics(seen: Mapping[str, int | None]) -> pd.DataFrame:
    """Return the histogram's mean, 99th percentile and maximum as rows of ``phases``, of the whole run: an order has no phases."""
    claims, distance, p99, largest = (seen[name] for name in ("claims", "distance", "p99", "max"))
    values = {"mean": distance / claims, "p99": p99, "max": largest} if claims and distance is not None else {}
    return as_phase_rows("order_diff", values, claims)
