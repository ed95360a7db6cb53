"""Columns as they are declared in Spark's words: ``name string, held boolean``."""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType


def read_columns(declaration: str) -> list[StructField]:
    """Return the columns of ``declaration``, in their order."""
    columns = StructType.fromDDL(declaration)
    assert isinstance(columns, StructType), f"{declaration!r} declares no columns"
    return columns.fields
