"""Small tables from what Python knows, without a Python process at Spark's side, which would cost a second to start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline.columns import read_columns


def make_rows(spark: SparkSession, rows: Sequence[Mapping[str, object]], columns: str) -> DataFrame:
    """Return ``rows`` as a DataFrame with ``columns``, declared in Spark's words (``name string, held boolean``)."""
    fields = read_columns(columns)
    if not rows:
        return spark.range(0).select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in fields))
    structs = [F.struct(*(F.lit(row[field.name]).cast(field.dataType).alias(field.name) for field in fields)) for row in rows]
    return spark.range(1).select(F.inline(F.array(*structs)))
