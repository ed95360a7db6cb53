"""How long was nothing completed although jobs waited? In whole seconds."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stallbench.measures import WHOLE_RUN
from stallbench.pipeline.frames import as_phase_rows
from stallbench.pipeline.time_axis import TimeAxis


def make_stalls(windows: DataFrame, jobs: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return the metrics of ``stalled_s`` as rows of ``phases``, from the table of seconds and the jobs.

    A second is stalled if nothing was completed in it although jobs waited: the queue's depth, as last sampled before its end, was not 0, or
    a job that the schedule had wanted before it was not claimed in it either. The latter needs no sample, which a server that is stuck or
    gone does not give, and counts what producers could not enqueue. ``total`` counts them, ``longest`` is the longest uninterrupted run of them.
    """
    by_time = Window.partitionBy().orderBy("t_s")
    depth = F.last("depth", ignorenulls=True).over(by_time)
    seconds = (
        windows.select("t_s", "phase", "completed", depth.alias("depth"))
        .join(_count_waiting(jobs, axis), "t_s", "full")
        .withColumn("waiting", F.sum(F.coalesce("change", F.lit(0))).over(by_time))
        .filter("phase IS NOT NULL")
    )
    intervals = seconds.select(
        F.explode(F.array(F.col("phase"), F.lit(WHOLE_RUN))).alias("phase"),
        "t_s",
        "phase",
        ((F.col("completed") == 0) & ((F.coalesce("depth", F.lit(0)) > 0) | (F.col("waiting") > 0))).alias("is_stalled"),
    ).toDF("interval", "t_s", "phase", "is_stalled")
    measured = [interval.name for interval in axis.intervals]
    of_interval = Window.partitionBy("interval", "is_stalled").orderBy("t_s")
    streaks = (
        intervals.filter(F.col("interval").isin(measured))
        .withColumn("streak", F.col("t_s") - F.row_number().over(of_interval))
        .groupBy("interval", "streak", "is_stalled")
        .agg(F.count("*").alias("seconds"))
    )
    stalled_s = F.when(F.col("is_stalled"), F.col("seconds")).otherwise(0)
    figures = streaks.groupBy("interval").agg(
        F.sum("seconds").alias("count"), F.sum(stalled_s).alias("total"), F.max(stalled_s).alias("longest")
    )
    return as_phase_rows(figures, "stalled_s", ("total", "longest"), F.col("interval"))


def _count_waiting(jobs: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return by how much the number of jobs that wait throughout a second is more than in the second before: ``t_s, change``."""
    begins = F.struct((axis.second(F.col("intended_ns")) + 1).alias("t_s"), F.lit(1).alias("change"))
    ends_ns = F.greatest("first_claimed_ns", "intended_ns")  # a job is claimed before its time only if clocks disagree
    ends_s = axis.second(F.when(F.col("first_claimed_ns").isNotNull(), ends_ns))
    waits = F.col("first_claimed_ns").isNull() | (ends_s > axis.second(F.col("intended_ns")))
    return (
        jobs.filter((F.col("state") != "lost") & F.col("intended_ns").isNotNull() & waits)
        .select(F.explode(F.array(begins, F.struct(ends_s.alias("t_s"), F.lit(-1).alias("change")))).alias("both"))
        .select("both.*")
        .filter("t_s IS NOT NULL")
        .groupBy("t_s")
        .agg(F.sum("change").alias("change"))
    )
