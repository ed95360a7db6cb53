"""A run's records as DataFrames: its events, its samples and its final snapshot, every line checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline.frames import make_rows, read_columns
from stallbench.pipeline.lines import Layout, RecordFile, parse_lines, survey
from stallbench.pipeline.paths import read_lines_of
from stallbench.pipeline.tables import TABLES
from stallbench.records.events import EVENT_COLUMNS, EVENT_NUMBERS, Event
from stallbench.records.samples import SAMPLE_COLUMNS

EVENTS = Layout(kind="events", columns=EVENT_COLUMNS, numbers=EVENT_NUMBERS)
SAMPLES = Layout(kind="samples", columns=SAMPLE_COLUMNS, numbers=("t_ns",))
FINAL_SNAPSHOT = Layout(kind="final_snapshot.csv", columns=("key", "word"), numbers=())
LEFT_OVER = Layout(kind="left_over.csv", columns=FINAL_SNAPSHOT.columns, numbers=())
_KEPT = {
    EVENTS: "t_ns long, process string, event string, job_id long, intended_ns long, duration_ns long, detail string",
    SAMPLES: "t_ns long, source string, subject string, metric string, value string, number double",
    FINAL_SNAPSHOT: "job_id long, held string",
    LEFT_OVER: "job_id long, held string",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Everything that a run has recorded."""

    events: DataFrame
    """``t_ns, process, event, job_id, intended_ns, duration_ns, detail``; meanings in `stallbench.records.events`."""
    samples: DataFrame
    """``t_ns, source, subject, metric, value`` as text, and ``number``: the value if it is one."""
    final_snapshot: DataFrame | None
    """``job_id, held`` (``queued`` or ``claimed``); none if no whole final snapshot was taken."""
    left_over: DataFrame | None
    """The same, as it was before the run; none if the queue was new."""
    files: tuple[RecordFile, ...]
    """The files that have lines, by name."""

    @property
    def event_count(self) -> int:
        """How many events there are."""
        return sum(file.lines - file.torn_lines for file in self.files if file.kind == EVENTS.kind)

    @property
    def first_ns(self) -> int | None:
        """Time of the first record."""
        return min((file.first_ns for file in self.files if file.first_ns is not None), default=None)

    @property
    def last_ns(self) -> int | None:
        """Time of the last record."""
        return max((file.last_ns for file in self.files if file.last_ns is not None), default=None)


def read_records(spark: SparkSession, folder: str) -> Records:
    """Read and check every line once, and keep what was read: in memory, and on disk as far as it does not fit.

    ``folder``: as `stallbench.pipeline.paths.name_folder` gives it. What is missing in it is as good as empty.
    """
    lines = {layout: read_lines_of(spark, f"{folder}/{layout.kind}") for layout in (EVENTS, SAMPLES, FINAL_SNAPSHOT, LEFT_OVER)}
    parsed = {layout: _parse(found, layout).persist() for layout, found in lines.items() if found is not None}
    files = survey(parsed.items())

    def records_of(layout: Layout) -> DataFrame:
        if layout not in parsed:
            return make_rows(spark, [], _KEPT[layout])
        kept = [field.name for field in read_columns(_KEPT[layout])]
        unfinished = [
            file.unfinished_line_no for file in files if file.kind == layout.kind and file.unfinished_line_no is not None
        ]
        whole = parsed[layout].filter("whole")
        return (whole.filter(~F.col("line_no").isin(unfinished)) if unfinished else whole).select(*kept)

    return Records(
        events=records_of(EVENTS),
        samples=records_of(SAMPLES),
        final_snapshot=records_of(FINAL_SNAPSHOT).filter("job_id IS NOT NULL") if _is_whole_snapshot(files) else None,
        left_over=records_of(LEFT_OVER).filter("job_id IS NOT NULL") if LEFT_OVER in parsed else None,
        files=tuple(files),
    )


def make_torn(spark: SparkSession, records: Records) -> DataFrame:
    """Return a row for each record file that has lines: how many, how many of them are torn, and whether the last one is."""
    rows = [
        {"file": file.name, "lines": file.lines, "torn_lines": file.torn_lines, "last_line_torn": file.last_line_torn}
        for file in records.files
    ]
    return make_rows(spark, rows, TABLES["torn"])


def _parse(lines: DataFrame, layout: Layout) -> DataFrame:
    """Parse the lines of a kind, and give each the columns that follow from its text."""
    if layout is EVENTS:
        return parse_lines(lines, layout, _are_given("t_ns", "mono_ns", "process") & F.col("event").isin(list(Event)))
    if layout is SAMPLES:
        parsed = parse_lines(lines, layout, _are_given("t_ns", "source", "subject", "metric"))
        return parsed.withColumn("number", F.nanvl(F.col("value").try_cast("double"), F.lit(None)))
    job_id, count = F.col("key").try_cast("long"), F.col("word").try_cast("long")
    is_job = job_id.isNotNull() & F.col("word").isin(["queued", "claimed"])
    is_end = (F.col("key") == "end") & count.isNotNull()
    return parse_lines(lines, layout, is_job | is_end).select(
        "*", F.when(is_job, job_id).alias("job_id"), F.col("word").alias("held"), F.when(is_end, count).alias("stated_jobs")
    )


def _are_given(*columns: str) -> Column:
    """Whether none of ``columns`` is empty."""
    return reduce(Column.__and__, (F.col(column).isNotNull() for column in columns))


def _is_whole_snapshot(files: Sequence[RecordFile]) -> bool:
    """Whether there is a final snapshot that has as many jobs as its last line says."""
    return any(file.torn_lines == 0 and file.stated_jobs == file.lines - 1 for file in files if file.kind == FINAL_SNAPSHOT.kind)
