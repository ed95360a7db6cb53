"""One Spark session for all tests of the pipeline: it takes longer to start than most of them to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from stallbench.pipeline.job_states import make_jobs
from stallbench.pipeline.make import write_tables
from stallbench.pipeline.paths import name_folder
from stallbench.pipeline.read import Records, read_records
from stallbench.pipeline.session import fit_to, open_session
from stallbench.pipeline.tables import read_table
from stallbench.pipeline.time_axis import TimeAxis, make_time_axis
from stallbench.run.record import RunRecord, parse_record


@dataclass(frozen=True)
class Parts:
    """A run as the functions that make tables are given it."""

    record: RunRecord
    records: Records
    axis: TimeAxis

    @cached_property
    def jobs(self) -> DataFrame:
        """The jobs, made once like the table."""
        return make_jobs(self.records, self.record).localCheckpoint(eager=False)


Tables = Callable[[str], pd.DataFrame]
MakeTables = Callable[[Path], Tables]
ReadParts = Callable[[Path], Parts]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as small runs have it."""
    with open_session("local[2]") as session:
        fit_to(session, events=0)  # a query of a few rows takes longer to compile than to interpret
        yield session


@pytest.fixture(scope="session")
def make(spark: SparkSession) -> MakeTables:
    """Make the tables of a run's folder and return how to read one of them."""

    def make_and_read(folder: Path) -> Tables:
        write_tables(spark, folder)
        return lambda name: read_table(folder, name)

    return make_and_read


@pytest.fixture(scope="session")
def read_parts(spark: SparkSession) -> ReadParts:
    """Read a run's folder as on one machine, for a test of one table that need not wait for all."""

    def read(folder: Path) -> Parts:
        record = parse_record((folder / "run.json").read_text(), "run.json")
        records = read_records(spark, name_folder(folder))
        return Parts(record, records, make_time_axis(record, records.first_ns, records.last_ns))

    return read
