"""Writes tables, several at the same time: most of the time for a small table is the planning, which uses one core."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from stallbench.pipeline.failures import PipelineError
from stallbench.pipeline.frames import read_columns
from stallbench.pipeline.paths import escape_glob, find_local_folder
from stallbench.pipeline.tables import MADE_WHOLE, TABLES

_AT_ONCE = 4
_ROWS_PER_FILE = 2_000_000


class TableWriter:
    """The tables that are being written. As a context manager it ends when all are written, or raises the error of the first that failed."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Write below ``folder``/tables."""
        self._spark = spark
        self._folder = folder
        self._started: list[Future[None]] = []
        self.pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tables")

    def start(self, name: str, make: Callable[[], DataFrame], *, rows: int = 0) -> Future[None]:
        """Write table ``name``, with the columns and types that it must have, in one file for each `_ROWS_PER_FILE` of about ``rows``."""
        future = self.pool.submit(self._write, name, make, 1 + rows // _ROWS_PER_FILE)
        self._started.append(future)
        return future

    def collect(self, name: str, make: Callable[[], Sequence[Mapping[str, object]] | pd.DataFrame]) -> None:
        """Write table ``name`` from the few rows that ``make`` collects."""
        self._started.append(self.pool.submit(lambda: self.put(name, make())))

    def put(self, name: str, rows: Sequence[Mapping[str, object]] | pd.DataFrame = ()) -> None:
        """Write table ``name`` from ``rows`` that are known without Spark: on this machine without it, elsewhere by its file system."""
        schema = to_arrow_schema(StructType(read_columns(TABLES[name])))
        content = pa.BufferOutputStream()
        pq.write_table(_to_arrow(rows, schema), content, compression="none")
        parts = {"part-00000.parquet": content.getvalue().to_pybytes(), MADE_WHOLE: b""}
        if (local := find_local_folder(self._path(name))) is not None:
            _replace_files(local, parts)
            return
        gateway = self._spark.sparkContext._gateway
        assert gateway is not None
        path = JavaClass("org.apache.hadoop.fs.Path", gateway._gateway_client)
        folder = path(self._path(name))
        files = folder.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration())
        files.delete(folder, True)
        for file, data in parts.items():
            stream = files.create(path(folder, file))
            stream.write(data)
            stream.close()

    def read_back(self, name: str) -> DataFrame:
        """Return table ``name`` as it was written."""
        return self._spark.read.schema(TABLES[name]).parquet(escape_glob(self._path(name)))

    def _path(self, name: str) -> str:
        return f"{self._folder}/tables/{name}"

    def _write(self, name: str, make: Callable[[], DataFrame], files: int) -> None:
        columns = [
            f"CAST({field.name} AS {field.dataType.simpleString()}) AS {field.name}" for field in read_columns(TABLES[name])
        ]
        make().selectExpr(*columns).coalesce(files).write.mode("overwrite").parquet(self._path(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.pool.shutdown(cancel_futures=error is not None)
        if error is None:
            for future in self._started:
                future.result()


def _to_arrow(rows: Sequence[Mapping[str, object]] | pd.DataFrame, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns and types of ``schema``; what is missing is null, and a fraction becomes a whole number as by a cast."""
    if not isinstance(rows, pd.DataFrame):
        return pa.Table.from_pylist(list(rows), schema)
    columns = [pa.Array.from_pandas(rows[field.name]).cast(field.type, safe=False) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write ``files`` (name: content) to ``folder``, in place of what it has; raises `PipelineError` if that is not possible."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise PipelineError(f"{folder}: the table cannot be written: {error.strerror or error}") from None
