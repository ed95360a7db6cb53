"""Seals the records of a run: writes what its record files hold as typed Parquet into ``sealed/`` of the run's folder, every line checked and counted.

The text files survive ``kill -9``; the sealed ones are what Spark reads, on one machine, on a cluster and in an object store. A run is sealed once,
after its end or by whoever first reads the folder of a killed one. It is sealed again if its text files have changed since.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from stallbench.base.storage.atomic_file import replace_file
from stallbench.base.storage.record_text import read_record_text
from stallbench.errors import BadInputError
from stallbench.records.events import Event
from stallbench.records.final_snapshot import END
from stallbench.records.layouts import (
    EVENT_IDS,
    EVENTS,
    FINAL_SNAPSHOT,
    LAYOUTS,
    OVERDUE,
    PRECONDITIONS,
    SAMPLES,
    STATED_JOBS,
    SUBJECTS,
    Layout,
)
from stallbench.records.reading import TORN_NAMED, Block, read_blocks, read_numbers

SEALED = "sealed"
"""The folder of sealed records, in the run's folder."""
MANIFEST = "records.json"
"""What `SealedRecords` holds, in the folder of sealed records."""
WITHOUT_TEXT = "without_text"
"""The file that lists, one a line, the event logs that were removed because their sealed form holds every line."""
_FORMAT = 1
_NUMBERED = ("process_id", "event_id")
"""The columns of events that have numbers in place of names."""
_NUMBER_BYTES = 8
_AT_ONCE = 2
"""Files that are sealed at the same time. Arrow reads each with all cores, but writes it with one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """What one record file holds."""

    kind: str
    name: str
    """Below the run's folder: ``events/worker-3.csv``."""
    bytes: int
    lines: int
    torn_lines: int
    torn_at: tuple[int, ...]
    """The numbers of the first torn lines, from 1."""
    last_line_torn: bool
    unfinished: bool
    """Whether the end of its last line is missing."""
    first_ns: int | None
    """Time of its first record; none for the final snapshot."""
    last_ns: int | None
    counts: Mapping[str, int]
    """What else was counted of its whole lines: each event by its kind, or the number of jobs that a final snapshot states, if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRecords:
    """What the sealed records of a run hold."""

    files: tuple[RecordFile, ...]
    """The record files that have lines, by name."""
    process_ids: Mapping[str, int]
    """The ``process_id`` of each process that has an event log."""

    def to_json(self) -> str:
        """Return the text of the manifest."""
        return json.dumps({"format": _FORMAT, "process_ids": self.process_ids, "files": [asdict(file) for file in self.files]})

    @classmethod
    def from_json(cls, text: str) -> SealedRecords | None:
        """Read the text of a manifest; none if it is of another format, or none at all."""
        try:
            manifest = _Manifest.model_validate_json(text)
        except ValueError:
            return None
        return cls(files=manifest.files, process_ids=manifest.process_ids)


class _Manifest(BaseModel):
    """The manifest as it is written: whoever has sent the folder may have written another one."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal[1]
    """`_FORMAT`."""
    files: tuple[RecordFile, ...]
    process_ids: dict[str, int]


@dataclass(slots=True)
class _Totals:
    """What was counted so far of one file."""

    lines: int = 0
    torn_lines: int = 0
    torn_at: list[int] = field(default_factory=list)
    last_line_torn: bool = False
    unfinished: bool = False
    times: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, layout: Layout, block: Block) -> None:
        self.lines += block.lines
        self.torn_lines += block.torn_lines
        self.torn_at = [*self.torn_at, *block.torn_at][:TORN_NAMED]
        self.last_line_torn, self.unfinished = block.is_last_line_torn, block.is_unfinished
        if block.table.num_rows:
            self.counts.update(_count(layout, block.table))
            if "t_ns" in layout.columns:
                extent = pc.min_max(block.table["t_ns"]).as_py()
                self.times += [extent["min"], extent["max"]]


def seal(run_folder: Path) -> SealedRecords:
    """Seal the records of a run unless they are sealed already.

    Raises `OSError` if the folder cannot be written or the disk is full, or if only the sealed form of some records is left and others have changed.
    """
    with _alone(run_folder):
        if (sealed := find_sealed(run_folder)) is not None:
            return sealed
        if removed := _read_removed(run_folder):
            raise OSError(
                errno.ESTALE,
                f"{SEALED}/ has the only copy of {len(removed)} event logs, but its {MANIFEST} is damaged or another record file has "
                "changed since; restore that file",
            )
        partial_folder = run_folder / f".{SEALED}-{os.getpid()}"
        try:
            sealed = _write(run_folder, partial_folder)
            shutil.rmtree(run_folder / SEALED, ignore_errors=True)
            partial_folder.rename(run_folder / SEALED)
        finally:
            shutil.rmtree(partial_folder, ignore_errors=True)
    return sealed


def find_sealed(run_folder: Path) -> SealedRecords | None:
    """Return what the sealed records of a run hold; none if they are not sealed, or if a text file has changed since."""
    try:
        sealed = SealedRecords.from_json(read_record_text(run_folder / SEALED / MANIFEST))
    except (FileNotFoundError, NotADirectoryError, BadInputError):
        return None
    if sealed is None:
        return None
    found = {layout.name_file(path.name): path.stat().st_size for layout, path in _list_text(run_folder)}
    gone = _read_removed(run_folder) - found.keys()
    if found != {file.name: file.bytes for file in sealed.files if file.name not in gone}:
        return None
    return sealed if all(_is_as_written(run_folder, file) for file in sealed.files) else None


def _is_as_written(run_folder: Path, file: RecordFile) -> bool:
    """Whether the sealed form of a record file has the rows that the manifest says, each with its bytes.

    In a file of some kilobytes that somebody has sent, billions of rows can be encoded, or gigabytes compressed, which Spark would read. What is
    sealed here is not compressed, and each row has a number that is not encoded: a time, or the id of a job.
    """
    path = run_folder / sealed_file(file.name)
    try:
        with pq.ParquetFile(path) as sealed:
            metadata = sealed.metadata
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    except (OSError, pa.ArrowException):
        return False
    stated = 0 if file.kind in (EVENTS.kind, SAMPLES.kind) else 1
    rows = file.lines - file.torn_lines
    return (
        rows - stated <= metadata.num_rows <= rows
        and metadata.num_rows * _NUMBER_BYTES <= path.stat().st_size
        and all(group.column(number).compression == "UNCOMPRESSED" for group in groups for number in range(group.num_columns))
    )


def remove_event_logs(run_folder: Path) -> int:
    """Remove the event logs of a run whose records are sealed, after each was read again and found equal to its sealed form.

    A log with a torn line stays, because the sealed form does not have it. Returns how many bytes were freed. Raises `OSError` if the records cannot be
    sealed or read, or if a sealed form differs; then every log is still there.
    """
    sealed = seal(run_folder)
    with _alone(run_folder):
        logs = [
            file
            for file in sealed.files
            if file.kind == EVENTS.kind and not file.torn_lines and (run_folder / file.name).exists()
        ]
        for file in logs:
            if not _holds_every_line(run_folder, file):
                raise OSError(errno.EIO, f"{sealed_file(file.name)} is not what {file.name} has")
        names = sorted(_read_removed(run_folder) | {file.name for file in logs})
        replace_file(run_folder / SEALED / WITHOUT_TEXT, "".join(f"{name}\n" for name in names))
        for file in logs:
            (run_folder / file.name).unlink()
    return sum(file.bytes for file in logs)


def _read_removed(run_folder: Path) -> set[str]:
    try:
        return set((run_folder / SEALED / WITHOUT_TEXT).read_text(errors="replace").splitlines())
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _holds_every_line(run_folder: Path, file: RecordFile) -> bool:
    """Whether the sealed form of an event log has what its lines have. Both are read in the same parts, one after the other."""
    columns = list(EVENTS.columns)
    with (run_folder / file.name).open("rb") as text:
        sealed = read_sealed(run_folder, file, columns)
        for block in read_blocks(text, EVENTS):
            part = next(sealed, None)
            if part is None or not _as_plain(block.table).equals(_as_plain(part)):
                return False
    return next(sealed, None) is None


def _as_plain(table: pa.Table) -> pa.Table:
    """Return a table with its words as plain text."""
    names = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    plain = pa.schema([field.with_type(pa.string()) if field.name in names else field for field in table.schema])
    return table.cast(plain).combine_chunks()


def sealed_file(name: str) -> str:
    """Return the path of the sealed form of a record file, below the run's folder: ``sealed/events/worker-3.parquet``."""
    return f"{SEALED}/{name.removesuffix('.csv')}.parquet"


def read_sealed(run_folder: Path, file: RecordFile, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Return ``columns`` of the sealed form of a record file, in parts as large as `stallbench.records.reading.BLOCK_BYTES` of text has them."""
    with pq.ParquetFile(run_folder / sealed_file(file.name)) as sealed:
        for number in range(sealed.num_row_groups):
            yield sealed.read_row_group(number, columns=list(columns))


@contextmanager
def _alone(run_folder: Path) -> Iterator[None]:
    """Let one process at a time seal a run."""
    descriptor = os.open(run_folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _list_text(run_folder: Path) -> list[tuple[Layout, Path]]:
    """Return the record files that are not empty."""
    found = []
    for layout in LAYOUTS:
        path = run_folder / layout.kind
        files = sorted(path.glob("*.csv")) if path.is_dir() else [path] if path.exists() else []
        found += [(layout, file) for file in files if file.stat().st_size]
    return found


def _write(run_folder: Path, target: Path) -> SealedRecords:
    texts = _list_text(run_folder)
    process_ids = {path.stem: number for number, (layout, path) in enumerate(texts) if layout is EVENTS}
    for layout, path in texts:
        (target / layout.name_file(path.name)).parent.mkdir(parents=True, exist_ok=True)
    target.mkdir(exist_ok=True)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="seal") as pool:
        files = tuple(pool.map(partial(_seal_file, target, process_ids), *zip(*texts, strict=True))) if texts else ()
    sealed = SealedRecords(files=tuple(sorted(files, key=lambda file: file.name)), process_ids=process_ids)
    (target / MANIFEST).write_text(sealed.to_json())
    return sealed


def _seal_file(target: Path, process_ids: Mapping[str, int], layout: Layout, path: Path) -> RecordFile:
    name = layout.name_file(path.name)
    totals = _Totals()
    size_bytes = 0
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        writer: pq.ParquetWriter | None = None
        for block in read_blocks(file, layout):
            totals.add(layout, block)
            kept = _type_columns(layout, process_ids, block.table)
            if writer is None:
                copy = target / sealed_file(name).removeprefix(f"{SEALED}/")
                writer = stack.enter_context(_open_writer(copy, kept.schema))
            writer.write_table(kept)
        size_bytes = file.tell()
    return RecordFile(
        kind=layout.kind,
        name=name,
        bytes=size_bytes,
        lines=totals.lines,
        torn_lines=totals.torn_lines,
        torn_at=tuple(totals.torn_at),
        last_line_torn=totals.last_line_torn,
        unfinished=totals.unfinished,
        first_ns=min(totals.times, default=None),
        last_ns=max(totals.times, default=None),
        counts=(dict.fromkeys(map(str, Event), 0) if layout is EVENTS else {}) | dict(totals.counts),
    )


def _open_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    words = [column.name for column in schema if pa.types.is_dictionary(column.type) or column.name in _NUMBERED]
    return pq.ParquetWriter(path, schema, compression="none", use_dictionary=words, write_statistics=False, store_schema=False)


def _type_columns(layout: Layout, process_ids: Mapping[str, int], table: pa.Table) -> pa.Table:
    """Return the columns of the sealed form: numbers stand beside names, because Spark compares them several times as fast."""
    if layout is EVENTS:
        numbered = table.append_column("process_id", _number_words(table["process"], process_ids, pa.int64()))
        return numbered.append_column("event_id", _number_words(table["event"], EVENT_IDS, pa.int32()))
    if layout is SAMPLES:
        return table.append_column("number", read_numbers(table["value"]))
    jobs = table.filter(pc.not_equal(table["key"], END))
    return pa.table({"job_id": jobs["key"].cast(pa.int64()), "held": jobs["word"]})


def _number_words(words: pa.ChunkedArray, numbers: Mapping[str, int], kind: pa.DataType) -> pa.ChunkedArray:
    """Return the number of each word; null for a word that has none."""
    chunks = [
        pa.array([numbers.get(word) for word in chunk.dictionary.to_pylist()], kind).take(chunk.indices) for chunk in words.chunks
    ]
    return pa.chunked_array(chunks, kind)


def _count(layout: Layout, table: pa.Table) -> dict[str, int]:
    if layout is EVENTS:
        waiting = pc.and_(pc.equal(table["event"], str(Event.ENQUEUED)), pc.is_valid(table["detail"]))
        return _count_words(table["event"]) | {PRECONDITIONS: _count_true(waiting)}
    if layout is SAMPLES:
        subject = table["subject"].cast(pa.string())
        counts = {name: _count_true(pc.starts_with(subject, start)) for start, name in SUBJECTS.items()}
        overdue = table.filter(pc.equal(table["metric"], "vacuum_overdue_s"))["value"]
        return counts | {OVERDUE: _count_true(pc.greater(read_numbers(overdue), 0))}
    ends = table.filter(pc.equal(table["key"], END))
    is_ended = layout is FINAL_SNAPSHOT and ends.num_rows == 1 and table["key"][-1].as_py() == END
    return {STATED_JOBS: int(ends["word"][0].as_py())} if is_ended else {}


def _count_words(words: pa.ChunkedArray) -> dict[str, int]:
    return {found["values"]: found["counts"] for found in pc.value_counts(words.unify_dictionaries()).to_pylist()}


def _count_true(condition: pa.ChunkedArray) -> int:
    return int(pc.sum(condition).as_py() or 0)
