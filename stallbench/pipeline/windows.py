"""The run second by second."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.measurements import COUNTED, SAMPLED
from stallbench.pipeline.time_axis import NS_PER_S, TimeAxis

_DISTRIBUTIONS = {
    "claim_ms": ("p50", "p95", "p99", "max"),
    "claim_call_ms": ("p95",),
    "enqueue_ms": ("p95",),
    "complete_ms": ("p95",),
    "latency_ms": ("p50", "p95", "p99"),
    "lag_ms": ("p50", "p99"),
}


def make_windows(measured: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return a row for each second that `stallbench.pipeline.measurements.keep_places` keeps, from what was measured in it.

    A second belongs to the phase that its middle is in. Of what was sampled, it has the last value; null where there was no sample.
    """
    columns = [F.coalesce(_of(measure, "weight"), F.lit(0)).alias(name) for name, measure in COUNTED.items()]
    columns += [_of(name, statistic).alias(f"{name}_{statistic}") for name, few in _DISTRIBUTIONS.items() for statistic in few]
    columns += [_of(name, "last").alias(name) for name in SAMPLED]
    seconds = measured.filter("t_s IS NOT NULL").groupBy("t_s").agg(*columns)
    begin_ns = F.col("t_s").cast("long") * NS_PER_S + axis.start_ns
    return seconds.withColumn("t_ns", begin_ns).withColumn("phase", axis.phase(begin_ns + NS_PER_S // 2))


def _of(measure: str, statistic: str) -> Column:
    return F.max(F.when(F.col("measure") == measure, F.col(statistic)))
