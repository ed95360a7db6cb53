"""Copies record files in which every line is whole to Parquet. Arrow reads text several times as fast as Spark, and Spark reads Parquet faster.

For files on this machine only. A file with a single line that may be torn is not copied: `stallbench.pipeline.lines` reads and counts its
lines. What is whole here is whole there, and has the same values.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from stallbench.pipeline.layouts import LONGEST_LINE_BYTES, Layout
from stallbench.pipeline.lines import RecordFile

_BLOCK_BYTES = 16 * 1024**2
_AT_ONCE = 2
"""Files that are copied at the same time. Arrow reads each with all cores, but writes it with one."""
_WORD = pa.dictionary(pa.int32(), pa.string())
_NOT_IN_RECORDS = (
    b"\0",  # left by a machine that stopped
    b"\r",  # would end a line for Arrow
    b"0x",  # would be a number for Arrow
    b"0X",
)


class NotWholeError(Exception):
    """A line may be torn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What the lines of a layout hold, for Arrow."""

    layout: Layout
    words: frozenset[str] = frozenset()
    """Columns of text with few different values."""
    given: tuple[str, ...]
    """Columns that are never empty."""
    keep: Callable[[pa.Table], pa.Table]
    """Returns the columns that are copied; raises `NotWholeError` if a line is no record of the layout."""
    count: Callable[[pa.Table], Mapping[str, int]]
    """What is counted of the lines, as in `RecordFile.counts`."""

    def types(self) -> dict[str, pa.DataType]:
        """Return the types of all columns."""
        kinds = {name: _WORD if name in self.words else pa.string() for name in self.layout.columns}
        return kinds | {name: pa.int64() for name in self.layout.numbers}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The files of one layout: those that were copied, and those that were not."""

    files: tuple[RecordFile, ...] = ()
    """Copied; without those that are empty."""
    folder: Path | None = None
    """Where the Parquet files are; none if there is none."""
    left: tuple[Path, ...] = ()
    """Not copied, because a line may be torn, or because the disk is full."""


@dataclass(slots=True)
class _Totals:
    """What was counted so far of one file."""

    lines: int = 0
    times: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def copy_whole_files(run_folder: Path, contents: Sequence[Content], scratch: Path) -> dict[Layout, Copies]:
    """Copy the record files of ``run_folder`` that are whole to ``scratch``."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="copies") as pool:
        found = {content.layout: _find_files(run_folder, content.layout) for content in contents}
        copied = {
            content.layout: list(pool.map(partial(_copy, content, scratch / content.layout.kind), found[content.layout]))
            for content in contents
        }
    return {
        layout: Copies(
            files=tuple(file for file in files if file is not None),
            folder=scratch / layout.kind if any(files) else None,
            left=tuple(path for path, file in zip(found[layout], files, strict=True) if file is None),
        )
        for layout, files in copied.items()
    }


def _find_files(run_folder: Path, layout: Layout) -> list[Path]:
    path = run_folder / layout.kind
    files = path.glob("*.csv") if path.is_dir() else [path] if path.exists() else []
    return sorted(file for file in files if file.stat().st_size)


def _copy(content: Content, folder: Path, path: Path) -> RecordFile | None:
    """Copy one file; returns none, and leaves no copy, if it is not whole or does not fit on the disk."""
    layout = content.layout
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / f"{path.stem}.parquet"
    totals = _Totals()
    try:
        with ExitStack() as stack:
            writer: pq.ParquetWriter | None = None
            for block in _read_blocks(path):
                table = _parse(content, block)
                kept = content.keep(table)
                _add(totals, content, table)
                if writer is None:
                    writer = stack.enter_context(_open_writer(copy, kept.schema))
                writer.write_table(kept)
    except (NotWholeError, OSError):
        # With a full disk, Spark may still have enough memory. If the file cannot be read, Spark says why.
        copy.unlink(missing_ok=True)
        return None
    return RecordFile(
        kind=layout.kind,
        name=path.name if layout.kind == path.name else f"{layout.kind}/{path.name}",
        lines=totals.lines,
        torn_lines=0,
        last_line_torn=False,
        first_ns=min(totals.times, default=None),
        last_ns=max(totals.times, default=None),
        unfinished=False,
        counts=dict(totals.counts),
    )


def _open_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    words = [column.name for column in schema if pa.types.is_dictionary(column.type)]
    return pq.ParquetWriter(path, schema, compression="none", use_dictionary=words, write_statistics=False, store_schema=False)


def _read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the content in blocks of whole lines."""
    rest = b""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while read := file.read(_BLOCK_BYTES):
            lines, end, begun = read.rpartition(b"\n")
            if not end:
                raise NotWholeError
            block = b"".join((rest, lines, end))
            _check_bytes(block)
            yield block
            rest = begun
    if rest:
        raise NotWholeError


def _check_bytes(block: bytes) -> None:
    if block.startswith(b"\xef\xbb\xbf") or any(sign in block for sign in _NOT_IN_RECORDS):
        raise NotWholeError
    start = 0
    while len(block) - start > LONGEST_LINE_BYTES:
        end = block.rfind(b"\n", start, start + LONGEST_LINE_BYTES + 1)
        if end < 0:
            raise NotWholeError
        start = end + 1


def _parse(content: Content, block: bytes) -> pa.Table:
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(column_names=list(content.layout.columns)),
            parse_options=csv.ParseOptions(quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(column_types=content.types(), null_values=[""], strings_can_be_null=True),
        )
    except pa.ArrowInvalid:
        raise NotWholeError from None
    if any(table[name].null_count for name in content.given):
        raise NotWholeError
    return table


def _add(totals: _Totals, content: Content, table: pa.Table) -> None:
    totals.lines += table.num_rows
    totals.counts.update(content.count(table))
    if "t_ns" in content.layout.kept:
        extent = pc.min_max(table["t_ns"]).as_py()
        totals.times += [extent["min"], extent["max"]]
