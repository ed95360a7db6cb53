"""For how long was nothing completed although jobs waited? By whole seconds."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stallbench.pipeline.run_metrics import WHOLE_RUN, as_phase_rows
from stallbench.pipeline.time_axis import TimeAxis


def make_stalls(windows: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return the metrics of ``stalled_s`` as rows of ``phases``, from the table of seconds.

    A second is stalled if nothing was completed in it and the queue's depth, as last sampled before its end, was not 0. ``total`` counts
    them, ``longest`` is the longest stretch of them. Without any sample of the depth there are no rows.
    """
    by_time = Window.partitionBy().orderBy("t_s")
    seconds = windows.select("t_s", "phase", "completed", F.last("depth", ignorenulls=True).over(by_time).alias("depth")).filter(
        "phase IS NOT NULL AND depth IS NOT NULL"
    )
    stretches = seconds.select(
        F.explode(F.array(F.col("phase"), F.lit(WHOLE_RUN))).alias("phase"),
        "t_s",
        "phase",
        ((F.col("completed") == 0) & (F.col("depth") > 0)).alias("is_stalled"),
    ).toDF("stretch", "t_s", "phase", "is_stalled")
    measured = [stretch.name for stretch in axis.stretches]
    of_stretch = Window.partitionBy("stretch", "is_stalled").orderBy("t_s")
    streaks = (
        stretches.filter(F.col("stretch").isin(measured))
        .withColumn("streak", F.col("t_s") - F.row_number().over(of_stretch))
        .groupBy("stretch", "streak", "is_stalled")
        .agg(F.count("*").alias("seconds"))
    )
    stalled_s = F.when(F.col("is_stalled"), F.col("seconds")).otherwise(0)
    figures = streaks.groupBy("stretch").agg(
        F.sum("seconds").alias("count"), F.sum(stalled_s).alias("total"), F.max(stalled_s).alias("longest")
    )
    return as_phase_rows(figures, "stalled_s", ("total", "longest"), F.col("stretch"))
