"""Computes the position of each row among all rows, a running total and the previous value, although no partition ever holds all rows.

Rows are partitioned by range and sorted in each partition. A row's position is its row number in its partition plus the sizes of the
partitions before it, and so it is with totals.
"""

from __future__ import annotations

from itertools import accumulate

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from stallbench.pipeline.frames import constant

ROWS_PER_PARTITION = 2_000_000
"""Up to this many rows, a sort in one partition is faster than in two: for two, Spark first samples the rows to find the ranges."""
_ROW_BITS = 33
_ROW_MASK = (1 << _ROW_BITS) - 1
_RANGE = "range_number"


def choose_partitions(rows: int) -> int:
    """Return the number of partitions in which so many rows are sorted."""
    return 1 + rows // ROWS_PER_PARTITION


def add_position(rows: DataFrame, by: tuple[str, ...], partitions: int, name: str) -> DataFrame:
    """Return ``rows`` with their position in the order of ``by``, from 0, as column ``name``. No two rows may be equal in ``by``."""
    if partitions == 1:
        # Rows that are in one partition stay there.
        number = F.row_number().over(Window.partitionBy(F.lit(0)).orderBy(*by))
        return rows.withColumn(name, number.cast("long") - 1)
    ordered = rows.repartitionByRange(partitions, *by).sortWithinPartitions(*by)
    # The partition is in the upper bits of this number, the row in the partition in its lower ones.
    numbered = ordered.withColumn(name, F.monotonically_increasing_id()).persist()
    partition = F.shiftright(name, _ROW_BITS)
    counted = numbered.groupBy(partition.alias("partition")).count().collect()
    sizes = {row["partition"]: row["count"] for row in counted}
    before = list(accumulate((sizes.get(number, 0) for number in range(partitions)), initial=0))[:-1]
    return numbered.withColumn(name, F.get(F.lit(before), partition.cast("int")) + F.col(name).bitwiseAND(_ROW_MASK))


def add_running_total(rows: DataFrame, by: str, column: str, partitions: int, name: str, total: str) -> DataFrame:
    """Return ``rows`` with the total of ``column`` up to each row in the order of ``by`` as ``name``, and that of all rows as ``total``.

    ``column`` is a whole number. No two rows may be equal in ``by``.
    """
    ranges, of_range = _divide(rows, by, partitions)
    so_far = F.sum(column).over(of_range.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    if partitions == 1:
        return ranges.select(*rows.columns, so_far.alias(name), F.sum(column).over(Window.partitionBy(F.lit(0))).alias(total))
    totals = _of_ranges(ranges, F.sum(column), partitions)
    before = list(accumulate((each or 0 for each in totals), initial=0))
    earlier = F.get(constant(before[:-1], "array<long>"), F.col(_RANGE))
    return ranges.select(*rows.columns, (so_far + earlier).alias(name), F.lit(before[-1]).cast("long").alias(total))


def add_previous(rows: DataFrame, by: str, partitions: int, name: str) -> DataFrame:
    """Return ``rows`` with the next smaller value of ``by``, a whole number, as column ``name``; null for the smallest one."""
    ranges, of_range = _divide(rows, by, partitions)
    previous = F.lag(by).over(of_range)
    if partitions == 1:
        return ranges.select(*rows.columns, previous.alias(name))
    largest = _of_ranges(ranges, F.max(by), partitions)
    before: list[int | None] = [None]
    for each in largest[:-1]:
        before.append(before[-1] if each is None else each)
    earlier = F.get(constant(before, "array<long>"), F.col(_RANGE))
    return ranges.select(*rows.columns, F.coalesce(previous, earlier).alias(name))


def _divide(rows: DataFrame, by: str, partitions: int) -> tuple[DataFrame, WindowSpec]:
    """Divide ``rows`` into ranges of ``by``, numbered in their order in `_RANGE`, and return how a window function goes through one."""
    if partitions == 1:
        return rows, Window.partitionBy(F.lit(0)).orderBy(by)
    ranges = rows.repartitionByRange(partitions, by).withColumn(_RANGE, F.spark_partition_id()).persist()
    return ranges, Window.partitionBy(_RANGE).orderBy(by)


def _of_ranges(ranges: DataFrame, figure: Column, partitions: int) -> list[int | None]:
    """Compute a figure of each range; null if the range is empty."""
    found = {row[_RANGE]: row["figure"] for row in ranges.groupBy(_RANGE).agg(figure.alias("figure")).collect()}
    return [found.get(number) for number in range(partitions)]
