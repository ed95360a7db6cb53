"""The run second by second."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.measures import MEASURES
from stallbench.pipeline.measurements import counted_measures, sampled_measures
from stallbench.pipeline.time_axis import NS_PER_S, TimeAxis


def make_windows(measured: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return a row for each second that `stallbench.pipeline.measurements.keep_silent_times` keeps, from what was measured in it.

    A second belongs to the phase that its middle is in. Of what was sampled, it has the last value; null where there was no sample.
    """
    columns = [F.coalesce(_of(counted, "weight"), F.lit(0)).alias(name) for name, counted in counted_measures().items()]
    columns += [_of(name, each).alias(f"{name}_{each}") for name, measure in MEASURES.items() for each in measure.by_second]
    columns += [_of(name, "last").alias(name) for name in sampled_measures()]
    seconds = measured.filter("t_s IS NOT NULL").groupBy("t_s").agg(*columns)
    begin_ns = F.col("t_s").cast("long") * NS_PER_S + axis.start_ns
    return seconds.withColumn("t_ns", begin_ns).withColumn("phase", axis.phase(begin_ns + NS_PER_S // 2))


def _of(measure: str, statistic: str) -> Column:
    return F.max(F.when(F.col("measure") == measure, F.col(statistic)))
