"""Makes small DataFrames and constants from Python values, without a Python worker of Spark, which takes a second to start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType


def make_rows(spark: SparkSession, rows: Sequence[Mapping[str, object]], columns: str) -> DataFrame:
    """Return ``rows`` as a DataFrame with ``columns``, declared in Spark's syntax (``name string, held boolean``)."""
    fields = read_columns(columns)
    if not rows:
        return spark.range(0, 0, 1, 1).selectExpr(
            *(f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in fields)
        )
    structs = [F.struct(*(F.lit(row[field.name]).cast(field.dataType).alias(field.name) for field in fields)) for row in rows]
    return one_row(spark).select(F.inline(F.array(*structs)))


def join_rows(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all frames, which have the same columns; pandas takes the types of an empty frame for those of its rows."""
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)


def is_on_one_machine(spark: SparkSession) -> bool:
    """Whether everything is computed in the Java process of ``spark``, and not on a cluster."""
    return str(spark.sparkContext.master).startswith("local")


def one_row(spark: SparkSession) -> DataFrame:
    """Return one row of no interest, to make others from it; Spark would give it a partition for each core."""
    return spark.range(0, 1, 1, 1)


def constant(value: object, kind: str) -> Column:
    """Return a list or a dictionary of JSON values as one literal of Spark's type ``kind``.

    Spark looks at each of the literals that an array is made of whenever it looks at the query, and Python makes each by several calls.
    """
    return F.from_json(F.lit(json.dumps(value)), kind)


@cache
def read_columns(declaration: str) -> list[StructField]:
    """Return the columns of ``declaration``, in their order. Spark reads the declaration; it is asked once."""
    columns = StructType.fromDDL(declaration)
    assert isinstance(columns, StructType), f"{declaration!r} declares no columns"
    return columns.fields
