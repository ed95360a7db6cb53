"""A run's records as DataFrames: its events, its samples and its final snapshot, every line checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline.contents import list_contents
from stallbench.pipeline.frames import is_on_one_machine, make_rows
from stallbench.pipeline.layouts import (
    EVENT_IDS,
    EVENTS,
    FINAL_SNAPSHOT,
    LEFT_OVER,
    OVERDUE,
    PRECONDITIONS,
    SAMPLES,
    STATED_JOBS,
    SUBJECTS,
    Layout,
)
from stallbench.pipeline.lines import COUNTERS, RecordFile, parse_lines, survey, without_last_lines
from stallbench.pipeline.paths import escape_glob, find_local_folder, list_names, read_lines_of
from stallbench.pipeline.whole_files import Copies, copy_whole_files
from stallbench.records.events import Event

_COLUMNS = {
    EVENTS: "t_ns long, process string, event string, job_id long, intended_ns long, duration_ns long, detail string,"
    "process_id long, event_id int",
    SAMPLES: "t_ns long, source string, subject string, metric string, value string, number double",
    FINAL_SNAPSHOT: "job_id long, held string",
    LEFT_OVER: "job_id long, held string",
}


ONE_TASK_LINES = 50_000
"""Up to so many lines in all files, one task reads them."""

_FREQUENT = (Event.CLAIMED, Event.WORKED, Event.COMPLETED, Event.ENQUEUED)
_BY_FREQUENCY = (*_FREQUENT, *(event for event in Event if event not in _FREQUENT))
"""In the order in which a name is compared with them, which is faster than a look-up in a set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Everything that a run has recorded."""

    events: DataFrame
    """``t_ns, process, event, job_id, intended_ns, duration_ns, detail``; meanings in `stallbench.records.events`.

    ``process_id`` and ``event_id`` stand for the names, in queries that compare each of them: see `process_ids`, `is_event`."""
    samples: DataFrame
    """``t_ns, source, subject, metric, value`` as text, and ``number``: the value if it is one."""
    final_snapshot: DataFrame | None
    """``job_id, held`` (``queued`` or ``claimed``); none if there is no complete final snapshot."""
    left_over: DataFrame | None
    """The same, as it was before the run; none if the queue was new."""
    files: tuple[RecordFile, ...]
    """The files that have lines, by name."""
    process_ids: Mapping[str, Column]
    """The ``process_id`` of each process that has an event log."""

    @property
    def line_count(self) -> int:
        """How many lines all files have, the torn ones included."""
        return sum(file.lines for file in self.files)

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
    def snapshot_jobs(self) -> int:
        """How many jobs the final snapshot lists."""
        return self._count(STATED_JOBS, FINAL_SNAPSHOT)

    @property
    def has_preconditions(self) -> bool:
        """Whether any job was enqueued with something to wait for."""
        return self._count(PRECONDITIONS) > 0

    @property
    def has_holders(self) -> bool:
        """Whether any sample found a holder of the horizon."""
        return self._count(SUBJECTS["holder:"]) > 0

    @property
    def has_stuck_clients(self) -> bool:
        """Whether any sample found a session that waits for its client."""
        return self._count(SUBJECTS["client_write:"]) > 0

    @property
    def has_statements(self) -> bool:
        """Whether any sample has what a server counted of a statement."""
        return self._count(SUBJECTS["statement:"]) > 0

    @property
    def has_overdue_vacuums(self) -> bool:
        """Whether any sample found a table that waits for a vacuum."""
        return self._count(OVERDUE) > 0

    def count_events(self, *events: Event) -> int:
        """Return how many events are one of ``events``."""
        return sum(self._count(event) for event in events)

    def _count(self, name: str, layout: Layout | None = None) -> int:
        return sum(file.counts.get(name, 0) for file in self.files if layout is None or file.kind == layout.kind)


def read_records(spark: SparkSession, folder: str, scratch: Path | None = None) -> Records:
    """Read and check every line once. A missing file counts as an empty one.

    ``folder``: as `stallbench.pipeline.paths.name_folder` gives it. ``scratch``: for copies of files on this machine, which are needed until the
    tables are made; without it, Spark reads all files as text and keeps what it has read.
    """
    run_folder = find_local_folder(folder) if scratch else None
    numbers: dict[str, int] = {}
    copies: Mapping[Layout, Copies] = {}
    if run_folder and scratch:
        logs = sorted((run_folder / EVENTS.kind).glob("*.csv"))
        numbers = {log.stem: number for number, log in enumerate(logs)}
        copies = copy_whole_files(run_folder, list_contents(numbers), scratch)
    parsed, files = _read_text(spark, folder, copies)
    process_ids, id_in_text = _identify_processes(files, numbers)
    files += [file for found in copies.values() for file in found.files]
    lines = sum(file.lines for file in files)
    copied = {
        layout: _read_copies(spark, layout, found.folder, lines) for layout, found in copies.items() if found.folder is not None
    }

    def records_of(layout: Layout) -> DataFrame:
        parts = [copied[layout]] if layout in copied else []
        if layout in parsed:
            whole = in_one_task(parsed[layout], lines).filter("whole").drop(*COUNTERS, "whole")
            parts.append(whole.withColumn("process_id", id_in_text) if layout is EVENTS else whole)
        return reduce(DataFrame.unionByName, parts) if parts else make_rows(spark, [], _COLUMNS[layout])

    def jobs_of(layout: Layout) -> DataFrame:
        return records_of(layout).filter("job_id IS NOT NULL").select("job_id", "held")

    return Records(
        events=records_of(EVENTS),
        samples=records_of(SAMPLES),
        final_snapshot=jobs_of(FINAL_SNAPSHOT) if _is_whole_snapshot(files) else None,
        left_over=jobs_of(LEFT_OVER) if LEFT_OVER in parsed or LEFT_OVER in copied else None,
        files=tuple(sorted(files, key=lambda file: file.name)),
        process_ids=process_ids,
    )


def in_one_task(frame: DataFrame, lines: int) -> DataFrame:
    """Let one task read ``frame`` if the run has few ``lines`` and all of it is on this machine.

    Then all rows stay in this task, by whatever columns they are grouped or joined. For a small run, the start of a task takes longer than its work.
    """
    return frame.coalesce(1) if lines <= ONE_TASK_LINES and is_on_one_machine(frame.sparkSession) else frame


def is_event(event: Event) -> Column:
    """Whether an event is ``event``, by its number."""
    return F.col("event_id") == EVENT_IDS[event]


def is_failed_enqueue() -> Column:
    """Whether an event is the error of an enqueue, which alone among errors has the time at which its job was due."""
    return is_event(Event.ERROR) & F.col("intended_ns").isNotNull()


def _identify_processes(text: Sequence[RecordFile], numbers: Mapping[str, int]) -> tuple[dict[str, Column], Column]:
    """Return the id of each process, and how the id of an event that Spark has read as text follows from its process.

    ``numbers``: the ids that the copies have. Then only few files are read as text. If all are, an id is a hash: looking a name up in a long list takes longer.
    """
    logs = [file.name.removeprefix(f"{EVENTS.kind}/").removesuffix(".csv") for file in text if file.kind == EVENTS.kind]
    if not numbers:
        return {name: F.xxhash64(F.lit(name)) for name in logs}, F.xxhash64("process")
    cases = [F.when(F.col("process") == name, numbers[name]) for name in logs]
    return {name: F.lit(number) for name, number in numbers.items()}, F.coalesce(*cases, F.lit(None)).cast("long")


def _read_text(
    spark: SparkSession, folder: str, copies: Mapping[Layout, Copies]
) -> tuple[dict[Layout, DataFrame], list[RecordFile]]:
    """Let Spark parse the files of which there are no copies."""
    found = {
        layout: read_lines_of(spark, f"{folder}/{layout.kind}", [path.name for path in copies[layout].left] if copies else None)
        for layout in _COLUMNS
    }
    lines = {layout: read for layout, read in found.items() if read is not None}
    parsed = {layout: _parse(read, layout) for layout, read in lines.items()}
    names = [name for read in lines.values() for name in list_names(read)]
    files = survey({layout: (read, _counts(layout)) for layout, read in parsed.items()}, names)
    for layout, read in lines.items():
        unfinished = [file.name.rpartition("/")[2] for file in files if file.kind == layout.kind and file.unfinished]
        if unfinished:
            parsed[layout].unpersist()
            parsed[layout] = _parse(without_last_lines(read, unfinished), layout)
    return parsed, files


def _read_copies(spark: SparkSession, layout: Layout, folder: Path, lines: int) -> DataFrame:
    loaded = spark.read.schema(_COLUMNS[layout].removesuffix(", number double")).parquet(escape_glob(f"{folder}"))
    copied = in_one_task(loaded, lines)
    return _with_numbers(copied).persist(StorageLevel.MEMORY_AND_DISK) if layout is SAMPLES else copied


def _with_numbers(samples: DataFrame) -> DataFrame:
    return samples.withColumn("number", F.nanvl(F.col("value").try_cast("double"), F.lit(None)))


def make_torn(records: Records) -> list[dict[str, object]]:
    """Return a row for each record file that has lines: how many, how many of them are torn, and whether the last one is."""
    return [
        {"file": file.name, "lines": file.lines, "torn_lines": file.torn_lines, "last_line_torn": file.last_line_torn}
        for file in records.files
    ]


def _parse(lines: DataFrame, layout: Layout) -> DataFrame:
    """Parse the lines of a kind, give each the columns that follow from its text, and keep them."""
    if layout is EVENTS:
        parsed = parse_lines(lines, layout, _are_given("t_ns", "mono_ns", "process") & _is_event(F.col("event"))).withColumn(
            "event_id", _number_event()
        )
    elif layout is SAMPLES:
        parsed = _with_numbers(parse_lines(lines, layout, _are_given("t_ns", "source", "subject", "metric")))
    else:
        job_id, count = F.col("key").try_cast("long"), F.col("word").try_cast("long")
        is_job = job_id.isNotNull() & F.col("word").isin(["queued", "claimed"])
        is_end = (F.col("key") == "end") & count.isNotNull()
        parsed = parse_lines(lines, layout, is_job | is_end).select(
            "*", F.when(is_job, job_id).alias("job_id"), F.col("word").alias("held"), F.when(is_end, count).alias(STATED_JOBS)
        )
    return parsed.persist(StorageLevel.MEMORY_AND_DISK)


def _counts(layout: Layout) -> Mapping[str, Column]:
    """What is counted only in the lines of ``layout``."""
    if layout is EVENTS:
        counts = {str(event): F.expr(f"count_if(whole AND event = '{event}')") for event in Event}
        waits = F.col("whole") & (F.col("event") == Event.ENQUEUED) & F.col("detail").isNotNull()
        return counts | {PRECONDITIONS: F.count_if(waits)}
    if layout is SAMPLES:
        of_subjects = {name: F.count_if(F.col("subject").startswith(start)) for start, name in SUBJECTS.items()}
        return of_subjects | {OVERDUE: F.count_if((F.col("metric") == "vacuum_overdue_s") & (F.col("number") > 0))}
    return {STATED_JOBS: F.max(STATED_JOBS)}


def _are_given(*columns: str) -> Column:
    """Whether none of ``columns`` is empty."""
    return reduce(Column.__and__, (F.col(column).isNotNull() for column in columns))


def _is_event(name: Column) -> Column:
    """Whether ``name`` is an event."""
    return reduce(Column.__or__, (name == event for event in _BY_FREQUENCY))


def _number_event() -> Column:
    """The number of the event whose name is in the column ``event``."""
    return F.coalesce(*(F.when(F.col("event") == event, EVENT_IDS[event]) for event in _BY_FREQUENCY))


def _is_whole_snapshot(files: Sequence[RecordFile]) -> bool:
    """Whether there is a final snapshot that has as many jobs as its last line says."""
    return any(
        file.torn_lines == 0 and file.counts.get(STATED_JOBS) == file.lines - 1
        for file in files
        if file.kind == FINAL_SNAPSHOT.kind
    )
