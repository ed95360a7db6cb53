"""The reader of record files: their lines as Arrow tables, every line checked. Nothing else parses records.

A line is *torn* if it has too few or too many columns, an invalid number or word, bytes that are no UTF-8, or a character that no record contains,
like the NUL bytes that a machine that stops may leave in its files. The last line of a file is also torn if its end is missing. Torn lines are
left out and counted, and the first ones are known by their numbers.

Arrow parses a block of lines at once. Only a block in which that fails, or which has bytes that Arrow takes for more than they are, is checked
line by line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from stallbench.base.storage.address import AnyPath
from stallbench.records.events import Event, EventRecord
from stallbench.records.final_snapshot import CLAIMED, END, QUEUED
from stallbench.records.layouts import EVENT_IDS, EVENTS, FINAL_SNAPSHOT, LONGEST_LINE_BYTES, SAMPLES, Layout
from stallbench.records.samples import SampleRecord

if TYPE_CHECKING:
    import pandas as pd

BLOCK_BYTES = 16 * 1024**2
_LAST_LINE_BYTES = 64
"""More than the last line of a final snapshot has."""
TORN_NAMED = 5
"""Of so many torn lines of a file, the first ones, the number is kept."""
_WORD = pa.dictionary(pa.int32(), pa.string())
_NOT_IN_RECORDS = (b"\0", b"\r")
_MISREAD_BY_ARROW = (
    *_NOT_IN_RECORDS,  # a carriage return ends a line for Arrow
    b"0x",  # a hexadecimal number is a number for Arrow
    b"0X",
    b", ",  # Arrow removes white space around a number
    b" ,",
    b"\n ",
    b"\t",
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUMBER = rb"-?[0-9]{1,19}"
_TEXT = rb"[^,\n\r\0]"
_FINITE_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some lines of a record file."""

    table: pa.Table
    """Those that are whole, with the columns of their layout; an empty value is null."""
    lines: int
    """How many lines there are, the torn ones included."""
    torn_lines: int
    torn_at: tuple[int, ...]
    """The numbers of the first torn lines, from 1 at the beginning of the file."""
    is_last_line_torn: bool
    is_unfinished: bool = False
    """Whether the end of the last line is missing."""


def read_blocks(file: BinaryIO, layout: Layout) -> Iterator[Block]:
    """Read a file, from where it stands, in blocks of `BLOCK_BYTES`; an empty file has none."""
    rest, number = b"", 1
    while read := file.read(BLOCK_BYTES):
        lines, end, begun = read.rpartition(b"\n")
        if not end:
            rest = (rest + read)[: LONGEST_LINE_BYTES + 1]  # enough to know that the line is torn
            continue
        block = _check(layout, b"".join((rest, lines, end)), number)
        yield block
        number += block.lines
        rest = begun
    if rest:
        yield Block(table=_empty(layout), lines=1, torn_lines=1, torn_at=(number,), is_last_line_torn=True, is_unfinished=True)


def read_table(path: AnyPath, layout: Layout, *, tail_bytes: int | None = None) -> pa.Table:
    """Return the whole lines of a file; none if there is no file.

    ``tail_bytes``: read no more than these last bytes. The first line is then left out if it begins before them.
    """
    try:
        with path.open("rb") as file:
            if tail_bytes is not None and (start := file.seek(0, os.SEEK_END) - tail_bytes) > 0:
                file.seek(start)
                file.readline()
            else:
                file.seek(0)
            tables = [block.table for block in read_blocks(file, layout)]
    except FileNotFoundError:
        tables = []
    return pa.concat_tables(tables) if tables else _empty(layout)


def read_events(path: AnyPath, *, tail_bytes: int | None = None) -> Iterator[EventRecord]:
    """Return the records of one log, or those in its last ``tail_bytes``; torn lines are left out. There is no record without a file."""
    return (
        EventRecord(**row | {"event": Event(row["event"]), "detail": row["detail"] or ""})
        for row in read_table(path, EVENTS, tail_bytes=tail_bytes).to_pylist()
    )


def read_samples(path: AnyPath, *, tail_bytes: int | None = None) -> Iterator[SampleRecord]:
    """Return the records of one file, or those in its last ``tail_bytes``; torn lines are left out. There is no record without a file."""
    rows = read_table(path, SAMPLES, tail_bytes=tail_bytes).to_pylist()
    return (SampleRecord(**row | {"value": row["value"] or ""}) for row in rows)


def read_sample_frame(path: AnyPath) -> pd.DataFrame:
    """Return a collector's samples as ``t_ns, source, subject, metric, value``, and ``number``: the value if it is one.

    Torn lines are left out. The frame is empty if there is no file.
    """
    table = read_table(path, SAMPLES)
    frame: pd.DataFrame = table.append_column("number", read_numbers(table["value"])).to_pandas(strings_to_categorical=False)
    return frame.astype(dict.fromkeys(SAMPLES.words, "object"))


def read_claimed(path: AnyPath) -> set[int]:
    """Return the ids of the claimed jobs of a final snapshot."""
    lines = read_table(path, FINAL_SNAPSHOT)
    return {int(key) for key in lines.filter(pc.equal(lines["word"], CLAIMED))["key"].to_pylist()}


def read_held_count(path: AnyPath) -> int:
    """Return the number of jobs that the last line of a final snapshot says."""
    (last,) = read_table(path, FINAL_SNAPSHOT, tail_bytes=_LAST_LINE_BYTES)["word"].to_pylist()[-1:]
    return int(last)


def read_numbers(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the numbers that texts are; null for a text that is none, and for one that is not finite."""
    is_number = pc.match_substring_regex(values, _FINITE_NUMBER)
    return pc.if_else(is_number, values, pa.scalar(None, pa.string())).cast(pa.float64())


def _check(layout: Layout, block: bytes, number: int) -> Block:
    """Check lines of which ``number`` is the first."""
    if not _needs_care(block):
        table = _parse(layout, block)
        if table is not None:
            return _select(layout, table, number)
    return _check_lines(layout, block.split(b"\n")[:-1], number)


def _select(layout: Layout, table: pa.Table, number: int) -> Block:
    """Leave out the lines that Arrow could parse and that are no records."""
    is_record = _find_records(layout, table)
    if is_record is None:
        return Block(table=table, lines=table.num_rows, torn_lines=0, torn_at=(), is_last_line_torn=False)
    torn = pc.indices_nonzero(pc.invert(is_record))
    return Block(
        table=table.filter(is_record),
        lines=table.num_rows,
        torn_lines=len(torn),
        torn_at=tuple(number + index for index in torn[:TORN_NAMED].to_pylist()),
        is_last_line_torn=not is_record[-1].as_py(),
    )


def _check_lines(layout: Layout, lines: Sequence[bytes], number: int) -> Block:
    """Check each line by itself, and parse those together that are whole."""
    pattern = _line_pattern(layout)
    is_whole = [len(line) < LONGEST_LINE_BYTES and pattern.fullmatch(line) is not None and _is_utf8(line) for line in lines]
    table = _parse(layout, b"".join(line + b"\n" for line, whole in zip(lines, is_whole, strict=True) if whole))
    if table is None:
        if len(lines) == 1:
            is_whole, table = [False], _empty(layout)
        else:  # a number is too large
            middle = len(lines) // 2
            return _join(_check_lines(layout, lines[:middle], number), _check_lines(layout, lines[middle:], number + middle))
    selected = _select(layout, table, 1)
    if selected.torn_lines:
        left = iter((_find_records(layout, table) or pa.array([])).to_pylist())
        is_whole = [whole and next(left) for whole in is_whole]
    torn_at = [number + index for index, whole in enumerate(is_whole) if not whole]
    return Block(
        table=selected.table,
        lines=len(lines),
        torn_lines=len(torn_at),
        torn_at=tuple(torn_at[:TORN_NAMED]),
        is_last_line_torn=not is_whole[-1],
    )


def _join(first: Block, second: Block) -> Block:
    return Block(
        table=pa.concat_tables([first.table, second.table]),
        lines=first.lines + second.lines,
        torn_lines=first.torn_lines + second.torn_lines,
        torn_at=(*first.torn_at, *second.torn_at)[:TORN_NAMED],
        is_last_line_torn=second.is_last_line_torn,
    )


def _needs_care(block: bytes) -> bool:
    if block.startswith((_BYTE_ORDER_MARK, b" ")) or any(sign in block for sign in _MISREAD_BY_ARROW):
        return True
    start = 0
    while len(block) - start > LONGEST_LINE_BYTES:
        end = block.rfind(b"\n", start, start + LONGEST_LINE_BYTES + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def _parse(layout: Layout, block: bytes) -> pa.Table | None:
    """Let Arrow parse lines; none if it cannot."""
    if not block:
        return _empty(layout)
    try:
        return csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(column_names=list(layout.columns)),
            parse_options=csv.ParseOptions(quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(column_types=_types(layout), null_values=[""], strings_can_be_null=True),
        )
    except pa.ArrowInvalid:
        return None


def _find_records(layout: Layout, table: pa.Table) -> pa.ChunkedArray | None:
    """Return which lines are records of the layout; none if all of them are."""
    if not table.num_rows:
        return None
    conditions = [pc.is_valid(table[name]) for name in layout.given if table[name].null_count]
    if layout is EVENTS:
        if not set(_words_of(table["event"])) <= EVENT_IDS.keys():
            conditions.append(pc.is_in(table["event"].cast(pa.string()), pa.array(list(EVENT_IDS))))
    elif layout is not SAMPLES:
        conditions += _check_snapshot(table)
    found = None
    for condition in conditions:
        found = condition if found is None else pc.and_(found, condition)
    return found


def _check_snapshot(table: pa.Table) -> list[pa.ChunkedArray]:
    """Check that each line is a job and its state, or the number of jobs."""
    key, word = table["key"], table["word"].cast(pa.string())
    is_job = pc.and_(pc.match_substring_regex(key, "^-?[0-9]{1,18}$"), pc.is_in(word, pa.array([QUEUED, CLAIMED])))
    is_end = pc.and_(pc.equal(key, END), pc.match_substring_regex(word, "^[0-9]{1,18}$"))
    is_line = pc.fill_null(pc.or_(is_job, is_end), False)
    return [] if pc.all(is_line).as_py() else [is_line]


def _words_of(column: pa.ChunkedArray) -> list[str]:
    return [word for chunk in column.chunks for word in chunk.dictionary.to_pylist() if word is not None]


@cache
def _types(layout: Layout) -> dict[str, pa.DataType]:
    kinds = dict.fromkeys(layout.columns, pa.string()) | dict.fromkeys(layout.words, _WORD)
    return kinds | dict.fromkeys(layout.numbers, pa.int64())


@cache
def _line_pattern(layout: Layout) -> re.Pattern[bytes]:
    def column(name: str) -> bytes:
        if name in layout.numbers:
            return _NUMBER if name in layout.given else b"(?:" + _NUMBER + b")?"
        return _TEXT + (b"+" if name in layout.given else b"*")

    return re.compile(b",".join(column(name) for name in layout.columns))


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _empty(layout: Layout) -> pa.Table:
    return pa.schema(list(_types(layout).items())).empty_table()
