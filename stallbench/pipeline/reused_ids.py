"""Separates jobs that the queue gave the same id: a server that loses its last commits may give their ids again.

Two confirmed enqueues with one id are two jobs. Without this, the earlier one would count as completed as soon as the later one is.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.records.events import Event
from stallbench.records.job_ids import EARLIER_STEP


def separate_jobs(events: DataFrame) -> DataFrame:
    """Return ``events`` in which each job that is not the last with its id has an id of its own, see `stallbench.records.job_ids`.

    A later job begins when its enqueue does. What a process does with a job that it has claimed concerns the job that it claimed, even if its
    id has been given again meanwhile.
    """
    began_ns = F.col("t_ns") - F.coalesce("duration_ns", F.lit(0))
    enqueues = events.filter((F.col("event") == Event.ENQUEUED) & (F.col("job_id") > 0))
    reused = enqueues.groupBy("job_id").agg(F.sort_array(F.collect_list(began_ns)).alias("begins")).filter(F.size("begins") > 1)
    of_one_process = (
        Window.partitionBy("job_id", "process").orderBy("t_ns").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    claimed_ns = F.max(F.when(F.col("event") == Event.CLAIMED, F.col("t_ns"))).over(of_one_process)
    concerned = events.join(reused, "job_id").withColumn(
        "since_ns", F.when(F.col("event") == Event.ENQUEUED, began_ns).otherwise(F.coalesce(claimed_ns, F.col("t_ns")))
    )
    separate = concerned.withColumn("job_id", _number(F.col("job_id"), F.col("begins"), F.col("since_ns")))
    others = events.join(reused, "job_id", "left_anti")
    return others.unionByName(separate.select(*others.columns))


def _number(job_id: Column, begins: Column, since_ns: Column) -> Column:
    """Return the id of the job with ``job_id`` that was the last one to be enqueued at ``since_ns``; of the first one, if none was."""
    nth = F.greatest(F.size(F.filter(begins, lambda begin: begin <= since_ns)), F.lit(1)).cast("long")
    return F.when(nth == F.size(begins), job_id).otherwise(-job_id - (nth - 1) * F.lit(EARLIER_STEP))
