"""A run's samples on the driver: the tables that are made of them grow with the length of a run, not with its jobs, and need no Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from stallbench.pipeline.paths import escape_glob, find_local_folder
from stallbench.records.layouts import SAMPLES

COLUMNS = ("t_ns", "source", "subject", "metric", "value", "number")


@dataclass(frozen=True, slots=True)
class Samples:
    """All samples of a run."""

    table: pa.Table
    """With the columns `COLUMNS`; names are dictionaries, so a sample takes some 40 bytes."""

    def select(self, *, subject: str = "", metrics: Collection[str] = ()) -> pd.DataFrame:
        """Return the samples whose subject begins with ``subject`` and whose metric is one of ``metrics``, if any are given, in the order of their time."""
        found = self.table
        if subject:
            found = found.filter(pc.starts_with(found["subject"].cast(pa.string()), subject))
        if metrics:
            found = found.filter(pc.is_in(found["metric"].cast(pa.string()), pa.array(sorted(metrics))))
        frame: pd.DataFrame = found.to_pandas()
        return frame.astype(dict.fromkeys(SAMPLES.words, "object")).sort_values("t_ns", kind="stable", ignore_index=True)


def read_samples(spark: SparkSession, folder: str) -> Samples:
    """Read the sealed samples in ``folder``, as Spark names it. Where only Spark can read, it does."""
    if (local := find_local_folder(folder)) is not None:
        form = ds.ParquetFileFormat(dictionary_columns=set(SAMPLES.words))
        return Samples(ds.dataset(local, format=form).to_table(columns=list(COLUMNS)))
    table = spark.read.parquet(escape_glob(folder)).select(*COLUMNS).toArrow()
    for name in SAMPLES.words:
        table = table.set_column(table.schema.get_field_index(name), name, table[name].dictionary_encode())
    return Samples(table)


def no_samples() -> Samples:
    """Return the samples of a run without any."""
    word = pa.dictionary(pa.int32(), pa.string())
    kinds = (pa.int64(), word, word, word, pa.string(), pa.float64())
    return Samples(pa.schema(list(zip(COLUMNS, kinds, strict=True))).empty_table())
