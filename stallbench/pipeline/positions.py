"""Computes the position of each row among all rows, although no partition ever holds all rows.

Rows are partitioned by range and sorted in each partition. A row's position is its row number in its partition plus the sizes of the
partitions before it.
"""

from __future__ import annotations

from itertools import accumulate

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ROWS_PER_PARTITION = 2_000_000
"""Up to this many rows, a sort in one partition is faster than in two: for two, Spark first samples the rows to find the ranges."""
_ROW_BITS = 33
_ROW_MASK = (1 << _ROW_BITS) - 1


def choose_partitions(rows: int) -> int:
    """Return the number of partitions in which so many rows are sorted."""
    return 1 + rows // ROWS_PER_PARTITION


def add_position(rows: DataFrame, by: tuple[str, ...], partitions: int, name: str) -> DataFrame:
    """Return ``rows`` with their position in the order of ``by``, from 0, as column ``name``. No two rows may be equal in ``by``."""
    ordered = rows.repartitionByRange(partitions, *by).sortWithinPartitions(*by)
    # The partition is in the upper bits of this number, the row in the partition in its lower ones.
    numbered = ordered.withColumn(name, F.monotonically_increasing_id())
    if partitions == 1:
        return numbered
    numbered = numbered.persist()
    partition = F.shiftright(name, _ROW_BITS)
    counted = numbered.groupBy(partition.alias("partition")).count().collect()
    sizes = {row["partition"]: row["count"] for row in counted}
    before = list(accumulate((sizes.get(number, 0) for number in range(partitions)), initial=0))[:-1]
    return numbered.withColumn(name, F.get(F.lit(before), partition.cast("int")) + F.col(name).bitwiseAND(_ROW_MASK))
