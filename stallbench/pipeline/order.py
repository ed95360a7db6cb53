"""Are jobs claimed in the order in which they were enqueued? The histogram of ``Diff_i = abs(i - job_idx_i)`` of seed 000.

A position among all jobs is global, but no single place ever holds all jobs: they are spread over partitions by range and sorted in each,
and a job's position is its place in its partition plus the sizes of the partitions before it.
"""

from __future__ import annotations

from itertools import accumulate

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

JOBS_PER_PARTITION = 2_000_000
"""A sort of this many is quicker in one partition than in two: for two, Spark first samples what to put where."""
_PLACE_BITS = 33
_PLACE_MASK = (1 << _PLACE_BITS) - 1


def choose_partitions(claimed_jobs: int) -> int:
    """Return over how many partitions so many jobs are sorted."""
    return 1 + claimed_jobs // JOBS_PER_PARTITION


def make_order(jobs: DataFrame, partitions: int) -> DataFrame:
    """Return ``diff, claims``: how many jobs were claimed so many positions away from where they were enqueued.

    Both positions are among the jobs that were claimed and whose enqueueing was recorded: i in the order of first claims, ``job_idx_i`` in the
    order of enqueueing; of two at the same nanosecond, the job of the lower id is first.
    """
    both = jobs.filter("first_claimed_ns IS NOT NULL AND enqueue_recorded").select("job_id", "enqueued_ns", "first_claimed_ns")
    placed = _place(
        _place(both, "enqueued_ns", partitions, "enqueued_place"), "first_claimed_ns", partitions, "claimed_place"
    ).persist()
    job_idx = _position(F.col("enqueued_place"), _offsets(placed, "enqueued_place", partitions))
    i = _position(F.col("claimed_place"), _offsets(placed, "claimed_place", partitions))
    return placed.groupBy(F.abs(i - job_idx).alias("diff")).agg(F.count("*").alias("claims"))


def _place(jobs: DataFrame, by: str, partitions: int, name: str) -> DataFrame:
    """Sort by range; the place has the partition in its upper bits and the row in the partition in its lower `_PLACE_BITS`."""
    ordered = jobs.repartitionByRange(partitions, by, "job_id").sortWithinPartitions(by, "job_id")
    return ordered.withColumn(name, F.monotonically_increasing_id())


def _offsets(placed: DataFrame, place: str, partitions: int) -> list[int]:
    """How many jobs are in the partitions before each."""
    counted = placed.groupBy(F.shiftright(place, _PLACE_BITS).alias("partition")).count().collect()
    sizes = {row["partition"]: row["count"] for row in counted}
    return list(accumulate((sizes.get(number, 0) for number in range(partitions)), initial=0))[:-1]


def _position(place: Column, offsets: list[int]) -> Column:
    offset = F.element_at(F.lit(offsets), F.shiftright(place, _PLACE_BITS).cast("int") + 1)
    return offset + place.bitwiseAND(_PLACE_MASK)
