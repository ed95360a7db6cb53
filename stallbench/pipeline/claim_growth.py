"""Do claims become slower with the number of jobs that were claimed before? A straight line through claim time against position.

Computed only for runs that begin with a backlog: there, the position of a claim among all claims says how many jobs the queue has passed.
"""

from __future__ import annotations

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.phases import as_phase_rows
from stallbench.pipeline.positions import add_position
from stallbench.pipeline.read import is_event
from stallbench.records.events import Event

PARTS = 50
"""Claims are cut into so many parts, equal in number and in the order of their claims. The line goes through the parts' medians, so that a
claim that the scheduler let wait weighs no more than another."""
_FEWEST_PARTS = 3
STATISTICS = ("slope_us", "first_ms", "last_ms", "times", "r2")


def count_parts(events: DataFrame, claims: int, partitions: int = 1) -> pd.DataFrame:
    """Return of each part of the claims, in order: ``ms``, the median of the claim time, ``position``, the mean place, ``end``, the last one, and ``claims``.

    ``claims``: the number of claims. ``partitions``: the number of partitions in which they are sorted.
    """
    durations = events.filter(is_event(Event.CLAIMED)).select(
        "t_ns", "process", "job_id", (F.col("duration_ns") / 1e6).alias("ms")
    )
    positioned = add_position(durations, ("t_ns", "process", "job_id"), partitions, "index")
    medians = positioned.groupBy(_part(F.col("index"), claims).alias("part")).agg(
        F.median("ms").alias("ms"),
        (F.avg("index") + 1).alias("position"),
        (F.max("index") + 1).alias("end"),
        F.count("*").alias("claims"),
    )
    return medians.toPandas().sort_values("part", ignore_index=True)


def make_growth_metrics(parts: pd.DataFrame) -> pd.DataFrame:
    """Return the line as rows of ``phases``, of the whole run: see `stallbench.measures`; none without claims in at least three parts."""
    known = parts.dropna(subset=["ms"])
    position, ms = (known[name].to_numpy(dtype="float64") for name in ("position", "ms"))
    spread = float(((position - position.mean()) ** 2).sum()) if len(known) else 0.0
    if len(parts) < _FEWEST_PARTS or not spread:
        return as_phase_rows("claim_by_position", {}, None)
    together = float(((position - position.mean()) * (ms - ms.mean())).sum())
    slope = together / spread
    intercept = float(ms.mean()) - slope * float(position.mean())
    of_ms = float(((ms - ms.mean()) ** 2).sum())
    first_ms, last_ms, quickest_ms = intercept + slope, intercept + slope * float(parts["end"].max()), max(float(ms.min()), 0.001)
    values = {
        "slope_us": slope * 1000,
        "first_ms": first_ms,
        "last_ms": last_ms,
        # Noise, or a growth that is not straight, may tilt the line towards zero or below it at one end, where the ratio would be any large number.
        "times": max(last_ms, quickest_ms) / max(first_ms, quickest_ms),
        "r2": together**2 / (spread * of_ms) if of_ms else 1.0,
    }
    return as_phase_rows("claim_by_position", {name: values[name] for name in STATISTICS}, int(parts["claims"].sum()))


def _part(index: Column, claims: int) -> Column:
    """The part that a claim is in: parts have the same size, but for the first ones, which have one more if claims are left over."""
    size, larger = divmod(claims, PARTS)
    in_larger = index < larger * (size + 1)
    return F.when(in_larger, F.floor(index / (size + 1))).otherwise(F.floor((index - larger) / max(size, 1))).cast("int")
