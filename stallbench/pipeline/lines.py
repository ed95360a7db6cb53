"""Parses the lines of record files. Each line is checked; torn lines are left out and counted.

A line is torn if it has too few or too many columns, an invalid number or word, or a NUL byte, which a machine that stops may leave in its
files. The last line of a file is also torn if its end is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline.frames import constant, one_row
from stallbench.pipeline.layouts import LONGEST_LINE_BYTES, Layout

COUNTERS = ("file_id", "start_bytes", "file_bytes", "line_bytes")
"""The columns of a parsed line from which `survey` finds the lines of each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What one block of one file holds; large files are read in blocks."""

    kind: str
    file: str
    """Name without a folder."""
    start_bytes: int
    file_bytes: int
    lines: int
    torn_lines: int
    line_bytes: int
    """Bytes of its lines, an end of line counted for each."""
    last_line_whole: bool
    first_ns: int | None
    last_ns: int | None
    counts: Mapping[str, int | None]
    """What else its layout counts (`parse_lines`)."""

    @property
    def name(self) -> str:
        """Name of its file below the run's folder."""
        return self.file if self.kind == self.file else f"{self.kind}/{self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """What one record file holds."""

    kind: str
    name: str
    """Below the run's folder: ``events/worker-3.csv``."""
    lines: int
    torn_lines: int
    last_line_torn: bool
    first_ns: int | None
    """Time of its first record; none for the final snapshot."""
    last_ns: int | None
    unfinished: bool
    """Whether the end of its last line is missing."""
    counts: Mapping[str, int]
    """What else was counted of its lines: events by their kind, or the number of jobs that a final snapshot states, if it does."""


def parse_lines(lines: DataFrame, layout: Layout, is_record: Column) -> DataFrame:
    """Split ``lines`` (``value``) into the columns that ``layout`` keeps, and what `survey` needs to count lines.

    ``is_record``: whether a line with valid columns is a record of the format. The column ``whole`` says whether the line is one.
    """
    length_bytes = F.octet_length("value")
    split = lines.select(
        _identify(F.col("_metadata.file_name")).alias("file_id"),
        F.col("_metadata.file_block_start").alias("start_bytes"),
        F.col("_metadata.file_size").alias("file_bytes"),
        (length_bytes + 1).alias("line_bytes"),
        F.split(F.when(length_bytes <= LONGEST_LINE_BYTES, F.col("value")), ",", -1).alias("parts"),
        F.contains("value", F.lit("\0")).alias("has_nul"),
    )
    part = {name: F.get("parts", F.lit(index)) for index, name in enumerate(layout.columns)}
    # An empty text must not reach the cast: Spark makes an exception of each text that is no number.
    given = {name: F.when(text != "", text) for name, text in part.items()}
    values = {name: text.try_cast("long") if name in layout.numbers else text for name, text in given.items()}
    is_split = (F.size("parts") == len(layout.columns)) & ~F.col("has_nul")
    numbers = [(part[name] == "") | values[name].isNotNull() for name in layout.numbers]
    parsed = split.select(
        *COUNTERS,
        *(value.alias(name) for name, value in values.items()),
        reduce(Column.__and__, numbers, is_split).alias("is_well_formed"),
    )
    whole = F.coalesce(F.col("is_well_formed") & is_record, F.lit(False))
    return parsed.select(*COUNTERS, *layout.kept, whole.alias("whole"))


def survey(parsed: Mapping[Layout, tuple[DataFrame, Mapping[str, Column]]], files: Collection[str]) -> list[RecordFile]:
    """Count the parsed lines of all layouts in one pass; returns the files by name, of those that have lines.

    Each layout comes with its lines and with what else is counted of them: an aggregate of whole numbers for each name. ``files``: the names of
    all files, without folders.
    """
    names = list(dict.fromkeys(name for _, counts in parsed.values() for name in counts))
    counted = [_count(layout, lines, counts, names) for layout, (lines, counts) in parsed.items()]
    if not counted:
        return []
    blocks: dict[str, list[Block]] = {}
    together = reduce(DataFrame.unionByName, counted)
    for row in together.join(F.broadcast(_list_ids(together.sparkSession, files)), "file_id", "left").drop("file_id").collect():
        values = row.asDict()
        assert values["file"] is not None, "lines of a file that was not listed"
        block = Block(counts={name: values.pop(name) for name in names}, **values)
        blocks.setdefault(block.name, []).append(block)
    return [_add_up(blocks[name]) for name in sorted(blocks)]


def without_last_lines(lines: DataFrame, files: Collection[str]) -> DataFrame:
    """Return ``lines`` without the last line of each of ``files``, by their names within their folder."""
    name = F.col("_metadata.file_name")
    ends = (
        lines.filter(name.isin(sorted(files)))
        .select(name.alias("file_name"), F.col("_metadata.file_block_start").alias("start_bytes"), "value")
        .groupBy("file_name", "start_bytes")
        .agg(F.last("value").alias("value"))
        .groupBy("file_name")
        .agg(F.max_by("value", "start_bytes").alias("value"))
        .collect()
    )
    is_last = [(name == row["file_name"]) & (F.col("value") == row["value"]) for row in ends]
    return lines.filter(~reduce(Column.__or__, is_last))


def _identify(file: Column) -> Column:
    """Return a number for a file's name, so that not each line that Spark keeps has the name."""
    return F.xxhash64(file)


def _list_ids(spark: SparkSession, files: Collection[str]) -> DataFrame:
    """Return ``file, file_id`` of each name."""
    names = one_row(spark).select(F.explode(constant(sorted(set(files)), "array<string>")).alias("file"))
    return names.select("file", _identify(F.col("file")).alias("file_id"))


def _count(layout: Layout, lines: DataFrame, counts: Mapping[str, Column], names: Sequence[str]) -> DataFrame:
    """Only whole numbers are aggregated: Spark sorts all rows to aggregate a text."""
    none = F.lit(None).cast("long")
    t_ns = F.when(F.col("whole"), F.col("t_ns")) if "t_ns" in layout.kept else none
    return (
        lines.groupBy("file_id", "start_bytes", "file_bytes")
        .agg(
            F.count("*").alias("lines"),
            F.count_if(~F.col("whole")).alias("torn_lines"),
            F.sum("line_bytes").alias("line_bytes"),
            F.last("whole").alias("last_line_whole"),  # a block is read by one task, in order
            F.min(t_ns).alias("first_ns"),
            F.max(t_ns).alias("last_ns"),
            *(counts[name].cast("long").alias(name) if name in counts else none.alias(name) for name in names),
        )
        .withColumn("kind", F.lit(layout.kind))
    )


def _add_up(blocks: list[Block]) -> RecordFile:
    last = max(blocks, key=lambda block: block.start_bytes)
    unfinished = sum(block.line_bytes for block in blocks) > last.file_bytes
    return RecordFile(
        kind=last.kind,
        name=last.name,
        lines=sum(block.lines for block in blocks),
        torn_lines=sum(block.torn_lines for block in blocks) + (unfinished and last.last_line_whole),
        last_line_torn=unfinished or not last.last_line_whole,
        first_ns=min((block.first_ns for block in blocks if block.first_ns is not None), default=None),
        last_ns=max((block.last_ns for block in blocks if block.last_ns is not None), default=None),
        unfinished=unfinished,
        counts={
            name: sum(counted)
            for name in last.counts
            if (counted := [n for block in blocks if (n := block.counts[name]) is not None])
        },
    )
