"""Reads a run's records: events, samples, census, and what ``run.json`` says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from stallbench.records.events import EVENT_COLUMNS
from stallbench.records.samples import SAMPLE_COLUMNS

WHOLE_RUN = "run"
"""The phase that stands for all measured ones: from the start of the first to the end of the last."""

_CORRUPT = "_corrupt"
_EVENT_TYPES = {
    "t_ns": LongType(),
    "mono_ns": LongType(),
    "job_id": LongType(),
    "attempt": IntegerType(),
    "intended_ns": LongType(),
    "duration_ns": LongType(),
}
_EVENT_SCHEMA = StructType([StructField(name, _EVENT_TYPES.get(name, StringType())) for name in EVENT_COLUMNS])
_SAMPLE_SCHEMA = StructType([StructField(name, LongType() if name == "t_ns" else StringType()) for name in SAMPLE_COLUMNS])
_CENSUS_SCHEMA = StructType([StructField("first", StringType()), StructField("second", StringType())])


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A phase that has begun; one that was cut short ends with the last record."""

    name: str
    measured: bool
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the tables need to know from ``run.json``."""

    content: Mapping[str, Any]

    @property
    def promise(self) -> str:
        """The queue's promise, ``at_least_once`` or ``at_most_once``."""
        return str(self.content["queue"]["promise"])

    @property
    def start_ns(self) -> int | None:
        """Start of the first phase: where ``t_s`` counts from."""
        return next((phase["start_ns"] for phase in self.content["phases"] if phase["start_ns"]), None)

    @property
    def interval_s(self) -> float:
        """Cadence of the collectors."""
        return float(self.content["scenario"]["collectors"]["interval_s"])

    @property
    def died(self) -> list[str]:
        """Names of the processes that did not end as they were asked to, or of which the end is not known."""
        over = self.content["status"] == "completed"
        return [
            process["name"]
            for process in self.content["processes"]
            if (process["exit_code"] not in (0, None)) or (process["end_ns"] is None and not over)
        ]

    def producer_died(self) -> bool:
        """Whether one of them is a producer, so that a job may be in the queue without its record."""
        died = set(self.died)
        return any(process["role"] == "producer" and process["name"] in died for process in self.content["processes"])

    def spans(self, last_ns: int) -> list[PhaseSpan]:
        """Return the phases that have begun; ``last_ns`` is when the last record was made."""
        begun = [phase for phase in self.content["phases"] if phase["start_ns"]]
        return [
            PhaseSpan(phase["name"], phase["measured"], phase["start_ns"], phase["end_ns"] or max(last_ns, phase["start_ns"]) + 1)
            for phase in begun
        ]


def read_facts(spark: SparkSession, folder: str) -> RunFacts:
    """Read ``run.json`` through Spark, so that the folder may be on any file system that it reads."""
    row = spark.read.text(f"{folder}/run.json", wholetext=True).first()
    assert row is not None, f"{folder}/run.json is empty"
    return RunFacts(json.loads(row[0]))


def read_events(spark: SparkSession, folder: str) -> DataFrame:
    """Return every line of the job logs, with its ``file`` and whether it is ``torn``.

    A line is torn if it has not all columns or not the types that they should have.
    """
    lines = _read_csv(spark, f"{folder}/events", _EVENT_SCHEMA)
    whole = F.col(_CORRUPT).isNull() & F.col("t_ns").isNotNull() & F.col("event").isNotNull()
    return lines.withColumn("torn", ~whole).drop(_CORRUPT)


def read_samples(spark: SparkSession, folder: str) -> DataFrame:
    """Return the samples of all collectors, torn lines left out: their columns, ``collector``, and ``number``, null for texts."""
    lines = _read_csv(spark, f"{folder}/samples", _SAMPLE_SCHEMA)
    return (
        lines.where(F.col(_CORRUPT).isNull() & F.col("value").isNotNull())
        .withColumn("collector", F.regexp_replace("file", r"\.csv$", ""))
        .withColumn("number", F.expr("try_cast(value AS double)"))
        .drop(_CORRUPT, "file")
    )


def read_census(spark: SparkSession, folder: str) -> DataFrame | None:
    """Return ``job_id`` and ``census_state`` of what the queue still held; none if nobody has looked, or not to the end."""
    try:
        lines = spark.read.csv(f"{folder}/census.csv", schema=_CENSUS_SCHEMA)
        end = lines.where(F.col("first") == "end").first()
    except (AnalysisException, Py4JJavaError):
        return None
    if end is None:
        return None
    return lines.where(F.col("first") != "end").select(
        F.col("first").cast(LongType()).alias("job_id"), F.col("second").alias("census_state")
    )


def name_phase(t_ns: Column, spans: list[PhaseSpan]) -> Column:
    """Return the name of the phase that ``t_ns`` falls into, null for none."""
    name = F.lit(None).cast(StringType())
    for span in spans:
        name = F.when((t_ns >= span.start_ns) & (t_ns < span.end_ns), F.lit(span.name)).otherwise(name)
    return name


def is_measured(t_ns: Column, spans: list[PhaseSpan]) -> Column:
    """Whether ``t_ns`` is between the start of the first measured phase and the end of the last."""
    measured = [span for span in spans if span.measured]
    if not measured:
        return F.lit(False)
    return (t_ns >= measured[0].start_ns) & (t_ns < measured[-1].end_ns)


def _read_csv(spark: SparkSession, folder: str, schema: StructType) -> DataFrame:
    """Read all CSV files of ``folder``, which may be missing, with each row's ``file`` and the text of those that do not fit."""
    full = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    try:
        lines = spark.read.csv(
            folder,
            schema=full,
            mode="PERMISSIVE",
            columnNameOfCorruptRecord=_CORRUPT,
            quote="",
            pathGlobFilter="*.csv",
        )
        return lines.withColumn("file", F.col("_metadata.file_name"))
    except AnalysisException:
        empty = StructType([*full.fields, StructField("file", StringType())])
        return spark.createDataFrame([], empty)


def as_number(metric: str) -> Column:
    """Return a sample's value if it is of ``metric``."""
    return F.when(F.col("metric") == metric, F.col("number"))
