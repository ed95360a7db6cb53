"""A run's records as DataFrames: its events, its samples and its final snapshot, every line checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline.frames import make_rows
from stallbench.pipeline.lines import Layout, RecordFile, parse_lines, survey, without_last_lines
from stallbench.pipeline.paths import read_lines_of
from stallbench.records.events import EVENT_COLUMNS, EVENT_NUMBERS, Event
from stallbench.records.samples import SAMPLE_COLUMNS

EVENTS = Layout(
    kind="events",
    columns=EVENT_COLUMNS,
    numbers=EVENT_NUMBERS,
    kept=("t_ns", "process", "event", "job_id", "intended_ns", "duration_ns", "detail"),
)
SAMPLES = Layout(kind="samples", columns=SAMPLE_COLUMNS, numbers=("t_ns",), kept=SAMPLE_COLUMNS)
FINAL_SNAPSHOT = Layout(kind="final_snapshot.csv", columns=("key", "word"), numbers=(), kept=("key", "word"))
LEFT_OVER = Layout(kind="left_over.csv", columns=FINAL_SNAPSHOT.columns, numbers=(), kept=FINAL_SNAPSHOT.kept)
_COLUMNS = {
    EVENTS: "t_ns long, process string, event string, job_id long, intended_ns long, duration_ns long, detail string",
    SAMPLES: "t_ns long, source string, subject string, metric string, value string, number double",
    FINAL_SNAPSHOT: "job_id long, held string",
    LEFT_OVER: "job_id long, held string",
}
_STATED_JOBS = "stated_jobs"
_PRECONDITIONS = "preconditions"
_SUBJECTS = {"holder:": "samples of holders", "client_write:": "samples of stuck clients", "statement:": "samples of statements"}
_OVERDUE = "samples of overdue vacuums"


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Everything that a run has recorded."""

    events: DataFrame
    """``t_ns, process, event, job_id, intended_ns, duration_ns, detail``; meanings in `stallbench.records.events`."""
    samples: DataFrame
    """``t_ns, source, subject, metric, value`` as text, and ``number``: the value if it is one."""
    final_snapshot: DataFrame | None
    """``job_id, held`` (``queued`` or ``claimed``); none if there is no complete final snapshot."""
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

    @property
    def process_names(self) -> list[str]:
        """The processes that have an event log, which is named after them."""
        return [file.name.removeprefix(f"{EVENTS.kind}/").removesuffix(".csv") for file in self.files if file.kind == EVENTS.kind]

    @property
    def snapshot_jobs(self) -> int:
        """How many jobs the final snapshot lists."""
        return self._count(_STATED_JOBS, FINAL_SNAPSHOT)

    @property
    def has_preconditions(self) -> bool:
        """Whether any job was enqueued with something to wait for."""
        return self._count(_PRECONDITIONS) > 0

    @property
    def has_holders(self) -> bool:
        """Whether any sample found a holder of the horizon."""
        return self._count(_SUBJECTS["holder:"]) > 0

    @property
    def has_stuck_clients(self) -> bool:
        """Whether any sample found a session that waits for its client."""
        return self._count(_SUBJECTS["client_write:"]) > 0

    @property
    def has_statements(self) -> bool:
        """Whether any sample has what a server counted of a statement."""
        return self._count(_SUBJECTS["statement:"]) > 0

    @property
    def has_overdue_vacuums(self) -> bool:
        """Whether any sample found a table that waits for a vacuum."""
        return self._count(_OVERDUE) > 0

    def count_events(self, *events: Event) -> int:
        """Return how many events are one of ``events``."""
        return sum(self._count(event) for event in events)

    def _count(self, name: str, layout: Layout | None = None) -> int:
        return sum(file.counts.get(name, 0) for file in self.files if layout is None or file.kind == layout.kind)


def read_records(spark: SparkSession, folder: str) -> Records:
    """Read and check every line once, and keep the result in memory; what does not fit is kept on disk.

    ``folder``: as `stallbench.pipeline.paths.name_folder` gives it. A missing file counts as an empty one.
    """
    found = {layout: read_lines_of(spark, f"{folder}/{layout.kind}") for layout in _COLUMNS}
    lines = {layout: read for layout, read in found.items() if read is not None}
    parsed = {layout: _parse(read, layout) for layout, read in lines.items()}
    files = survey({layout: (read, _counts(layout)) for layout, read in parsed.items()})
    for layout, read in lines.items():
        unfinished = [file.name.rpartition("/")[2] for file in files if file.kind == layout.kind and file.unfinished]
        if unfinished:
            parsed[layout].unpersist()
            parsed[layout] = _parse(without_last_lines(read, unfinished), layout)

    def records_of(layout: Layout) -> DataFrame:
        if layout not in parsed:
            return make_rows(spark, [], _COLUMNS[layout])
        return parsed[layout].filter("whole").drop("file", "start_bytes", "file_bytes", "line_bytes", "whole")

    def jobs_of(layout: Layout) -> DataFrame:
        return records_of(layout).filter("job_id IS NOT NULL").select("job_id", "held")

    return Records(
        events=records_of(EVENTS),
        samples=records_of(SAMPLES),
        final_snapshot=jobs_of(FINAL_SNAPSHOT) if _is_whole_snapshot(files) else None,
        left_over=jobs_of(LEFT_OVER) if LEFT_OVER in parsed else None,
        files=tuple(files),
    )


def make_torn(records: Records) -> list[dict[str, object]]:
    """Return a row for each record file that has lines: how many, how many of them are torn, and whether the last one is."""
    return [
        {"file": file.name, "lines": file.lines, "torn_lines": file.torn_lines, "last_line_torn": file.last_line_torn}
        for file in records.files
    ]


def _parse(lines: DataFrame, layout: Layout) -> DataFrame:
    """Parse the lines of a kind, give each the columns that follow from its text, and keep them."""
    if layout is EVENTS:
        parsed = parse_lines(lines, layout, _are_given("t_ns", "mono_ns", "process") & _is_event(F.col("event")))
    elif layout is SAMPLES:
        parsed = parse_lines(lines, layout, _are_given("t_ns", "source", "subject", "metric")).withColumn(
            "number", F.nanvl(F.col("value").try_cast("double"), F.lit(None))
        )
    else:
        job_id, count = F.col("key").try_cast("long"), F.col("word").try_cast("long")
        is_job = job_id.isNotNull() & F.col("word").isin(["queued", "claimed"])
        is_end = (F.col("key") == "end") & count.isNotNull()
        parsed = parse_lines(lines, layout, is_job | is_end).select(
            "*", F.when(is_job, job_id).alias("job_id"), F.col("word").alias("held"), F.when(is_end, count).alias(_STATED_JOBS)
        )
    return parsed.persist(StorageLevel.MEMORY_AND_DISK)


def _counts(layout: Layout) -> Mapping[str, Column]:
    """What is counted only in the lines of ``layout``."""
    if layout is EVENTS:
        counts = {str(event): F.expr(f"count_if(whole AND event = '{event}')") for event in Event}
        waits = F.col("whole") & (F.col("event") == Event.ENQUEUED) & F.col("detail").isNotNull()
        return counts | {_PRECONDITIONS: F.count_if(waits)}
    if layout is SAMPLES:
        of_subjects = {name: F.count_if(F.col("subject").startswith(start)) for start, name in _SUBJECTS.items()}
        return of_subjects | {_OVERDUE: F.count_if((F.col("metric") == "vacuum_overdue_s") & (F.col("number") > 0))}
    return {_STATED_JOBS: F.max(_STATED_JOBS)}


def _are_given(*columns: str) -> Column:
    """Whether none of ``columns`` is empty."""
    return reduce(Column.__and__, (F.col(column).isNotNull() for column in columns))


def _is_event(name: Column) -> Column:
    """Whether ``name`` is an event; the most frequent ones are compared first, which is faster than a look-up in a set."""
    frequent = (Event.CLAIMED, Event.WORKED, Event.COMPLETED, Event.ENQUEUED)
    others = [event for event in Event if event not in frequent]
    return reduce(Column.__or__, (name == event for event in (*frequent, *others)))


def _is_whole_snapshot(files: Sequence[RecordFile]) -> bool:
    """Whether there is a final snapshot that has as many jobs as its last line says."""
    return any(
        file.torn_lines == 0 and file.counts.get(_STATED_JOBS) == file.lines - 1
        for file in files
        if file.kind == FINAL_SNAPSHOT.kind
    )
