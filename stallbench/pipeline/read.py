"""A run's sealed records as DataFrames: its events, its samples and its final snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline.failures import RunFolderError
from stallbench.pipeline.frames import is_on_one_machine, make_rows
from stallbench.pipeline.paths import escape_glob, find_local_folder, read_whole_text
from stallbench.pipeline.sampled import Samples, no_samples, read_samples
from stallbench.records.events import Event
from stallbench.records.layouts import (
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
from stallbench.records.sealing import MANIFEST, SEALED, RecordFile, SealedRecords, seal, sealed_file

_COLUMNS = {
    EVENTS: "t_ns long, process string, event string, job_id long, attempt long, intended_ns long, duration_ns long, detail string,"
    "process_id long, event_id int",
    SAMPLES: "t_ns long, source string, subject string, metric string, value string, number double",
    FINAL_SNAPSHOT: "job_id long, held string",
    LEFT_OVER: "job_id long, held string",
}
"""The columns that the pipeline needs."""


ONE_TASK_LINES = 50_000
"""Up to so many lines in all files, one task reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Everything that a run has recorded."""

    events: DataFrame
    """``t_ns, process, event, job_id, attempt, intended_ns, duration_ns, detail``; meanings in `stallbench.records.events`.

    ``process_id`` and ``event_id`` stand for the names, in queries that compare each of them: see `process_ids`, `is_event`."""
    samples: DataFrame
    """``t_ns, source, subject, metric, value`` as text, and ``number``: the value if it is one."""
    sampled: Samples
    """The samples on the driver."""
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
    def last_recorded_ns(self) -> Mapping[str, int]:
        """Time of the last event of each process that has recorded one."""
        logs = [file for file in self.files if file.kind == EVENTS.kind]
        return {PurePosixPath(file.name).stem: file.last_ns for file in logs if file.last_ns is not None}

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


def read_records(spark: SparkSession, folder: str) -> Records:
    """Read the sealed records of a run; on this machine they are sealed first if they are not. A missing file counts as an empty one.

    ``folder``: as `stallbench.pipeline.paths.name_folder` gives it. Raises `RunFolderError` if the records of a folder elsewhere are not sealed.
    """
    sealed = _find_sealed(spark, folder)
    lines = sum(file.lines for file in sealed.files)

    def records_of(layout: Layout) -> DataFrame | None:
        files = [file.name for file in sealed.files if file.kind == layout.kind]
        if not files:
            return None
        path = f"{folder}/{SEALED}/{layout.kind}" if layout.is_folder else f"{folder}/{sealed_file(layout.kind)}"
        return in_one_task(spark.read.schema(_COLUMNS[layout]).parquet(escape_glob(path)), lines)

    samples = records_of(SAMPLES)
    return Records(
        events=_or_none(spark, records_of(EVENTS), EVENTS),
        samples=_or_none(spark, samples and samples.persist(StorageLevel.MEMORY_AND_DISK), SAMPLES),
        sampled=no_samples() if samples is None else read_samples(spark, f"{folder}/{SEALED}/{SAMPLES.kind}"),
        final_snapshot=records_of(FINAL_SNAPSHOT) if _is_whole_snapshot(sealed.files) else None,
        left_over=records_of(LEFT_OVER),
        files=sealed.files,
        process_ids={name: F.lit(number) for name, number in sealed.process_ids.items()},
    )


def _find_sealed(spark: SparkSession, folder: str) -> SealedRecords:
    if (local := find_local_folder(folder)) is not None:
        try:
            return seal(local)
        except OSError as error:
            raise RunFolderError(f"{local}: its records cannot be read and sealed: {error.strerror or error}") from error
    text = read_whole_text(spark, f"{folder}/{SEALED}/{MANIFEST}")
    sealed = SealedRecords.from_json(text) if text is not None else None
    if sealed is None:
        raise RunFolderError(
            f"{folder}: its records are not sealed, or by another version of stallbench; make its report where the run was carried out "
            "(stallbench report RUN), and upload it again"
        )
    return sealed


def _or_none(spark: SparkSession, records: DataFrame | None, layout: Layout) -> DataFrame:
    return make_rows(spark, [], _COLUMNS[layout]) if records is None else records


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


def make_torn(records: Records) -> list[dict[str, object]]:
    """Return a row for each record file that has lines: how many, how many of them are torn, and whether the last one is."""
    return [
        {"file": file.name, "lines": file.lines, "torn_lines": file.torn_lines, "last_line_torn": file.last_line_torn}
        for file in records.files
    ]


def _is_whole_snapshot(files: Sequence[RecordFile]) -> bool:
    """Whether there is a final snapshot that has as many jobs as its last line says."""
    return any(
        file.torn_lines == 0 and file.counts.get(STATED_JOBS) == file.lines - 1
        for file in files
        if file.kind == FINAL_SNAPSHOT.kind
    )
