"""Do claims become slower with the number of jobs that were claimed before? A straight line through claim time against position.

Computed only for runs that begin with a backlog: there, the position of a claim among all claims says how many jobs the queue has passed.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.frames import as_phase_rows
from stallbench.pipeline.positions import add_position
from stallbench.records.events import Event

PARTS = 50
"""Claims are cut into so many parts, equal in number and in the order of their claims. The line goes through the parts' medians, so that a
claim that the scheduler let wait weighs no more than another."""
STATISTICS = ("slope_us", "first_ms", "last_ms", "times", "r2")


def make_growth_metrics(events: DataFrame, claims: int, partitions: int = 1) -> DataFrame:
    """Return the line as rows of ``phases``, of the whole run: see `stallbench.measures`; none without claims in at least three parts.

    ``claims``: the number of claims. ``partitions``: the number of partitions in which they are sorted.
    """
    durations = events.filter(F.col("event") == Event.CLAIMED).select(
        "t_ns", "process", "job_id", (F.col("duration_ns") / 1e6).alias("ms")
    )
    positioned = add_position(durations, ("t_ns", "process", "job_id"), partitions, "index")
    medians = positioned.groupBy(_part(F.col("index"), claims).alias("part")).agg(
        F.median("ms").alias("ms"),
        (F.avg("index") + 1).alias("position"),
        (F.max("index") + 1).alias("end"),
        F.count("*").alias("claims"),
    )
    line = (
        medians.repartition(1)
        .sortWithinPartitions("part")
        .agg(  # so that the same fractions are added in the same order
            F.regr_slope("ms", "position").alias("slope"),
            F.regr_intercept("ms", "position").alias("intercept"),
            F.regr_r2("ms", "position").alias("r2"),
            F.max("end").alias("end"),
            F.min("ms").alias("quickest_ms"),
            F.sum("claims").alias("count"),
            F.count("*").alias("parts"),
        )
        .filter("parts >= 3 AND slope IS NOT NULL")
    )
    ends = line.select(
        (F.col("slope") * 1000).alias("slope_us"),
        (F.col("intercept") + F.col("slope")).alias("first_ms"),
        (F.col("intercept") + F.col("slope") * F.col("end")).alias("last_ms"),
        F.coalesce("r2", F.lit(0.0)).alias("r2"),
        F.greatest("quickest_ms", F.lit(0.001)).alias("quickest_ms"),
        "count",
    )
    # Noise, or a growth that is not straight, may tilt the line towards zero or below it at one end, where the ratio would be any large number.
    times = F.greatest("last_ms", "quickest_ms") / F.greatest("first_ms", "quickest_ms")
    return as_phase_rows(ends.withColumn("times", times), "claim_by_position", STATISTICS)


def _part(index: Column, claims: int) -> Column:
    """The part that a claim is in: parts have the same size, but for the first ones, which have one more if claims are left over."""
    size, larger = divmod(claims, PARTS)
    in_larger = index < larger * (size + 1)
    return F.when(in_larger, F.floor(index / (size + 1))).otherwise(F.floor((index - larger) / max(size, 1))).cast("int")
