"""The lines of record files: each checked on its own, and counted, so that a torn one is left out and known to be.

A line is torn if its columns are too few or too many, a number or a word is not one that the format has, a NUL byte is in it (what a
machine that stops leaves in its files), or if it is the last of a file and its end is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from stallbench.records.events import Event

_GARBLED = "garbled"
_LONGEST_LINE_BYTES = 16_384
"""No record comes near it; a line of garbage that is longer may have more commas than Spark's parser has columns, which ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a kind of record file has on each line."""

    kind: str
    """Name of the kind: of its folder, or of the one file."""
    numbers: tuple[str, ...]
    """Columns that are a whole number or empty."""
    columns: tuple[str, ...]
    """All columns, in order."""

    @property
    def schema(self) -> StructType:
        """The columns, and beside them the whole line if it does not have them."""
        fields = [StructField(name, LongType() if name in self.numbers else StringType()) for name in self.columns]
        return StructType([*fields, StructField(_GARBLED, StringType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What one block of one file holds; large files are read in blocks."""

    kind: str
    file: str
    """Name below the run's folder."""
    start_bytes: int
    lines: int
    torn_lines: int
    line_bytes: int
    """Bytes of its lines, an end of line counted for each."""
    file_bytes: int
    last_line_no: int
    last_line_whole: bool
    first_ns: int | None
    last_ns: int | None
    stated_jobs: int | None
    """The number on a final snapshot's last line."""
    errors: int
    """Events that are an ``error``."""
    refused: int
    """Events that are a ``refused``."""


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
    stated_jobs: int | None
    """The number of jobs that a final snapshot says it has; none for others."""
    errors: int
    """How many of its events are an ``error``."""
    refused: int
    """How many of its events are a ``refused``."""
    unfinished_line_no: int | None
    """The last line, if its end is missing."""


def parse_lines(lines: DataFrame, layout: Layout, is_record: Column) -> DataFrame:
    """Split ``lines`` (``value``) into columns.

    ``is_record``: whether a line whose columns are right is a record of the format. Returns the columns of ``layout``, ``whole``, and what
    `survey` needs to count lines.
    """
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _GARBLED, "quote": ""}
    folder = "" if layout.kind.endswith(".csv") else f"{layout.kind}/"
    parsable = F.when(F.octet_length("value") <= _LONGEST_LINE_BYTES, F.col("value"))
    parsed = lines.select(
        F.concat(F.lit(folder), F.col("_metadata.file_name")).alias("file"),
        F.col("_metadata.file_block_start").alias("start_bytes"),
        F.col("_metadata.file_size").alias("file_bytes"),
        F.monotonically_increasing_id().alias("line_no"),
        (F.octet_length("value") + 1).alias("line_bytes"),
        (F.instr("value", "\0") > 0).alias("has_nul"),
        F.from_csv(parsable, layout.schema.simpleString(), options).alias("column"),
    ).select("file", "start_bytes", "file_bytes", "line_no", "line_bytes", "has_nul", "column.*")
    whole = F.col(_GARBLED).isNull() & ~F.col("has_nul") & F.coalesce(is_record, F.lit(False))
    return parsed.withColumn("whole", whole).drop("has_nul", _GARBLED)


def survey(kinds: Iterable[tuple[Layout, DataFrame]]) -> list[RecordFile]:
    """Count the parsed lines of all ``kinds`` in one pass; returns the files by name, of those that have lines."""
    counted = [_count(layout, parsed) for layout, parsed in kinds]
    if not counted:
        return []
    blocks = [Block(**row.asDict()) for row in reduce(DataFrame.unionByName, counted).collect()]
    files: dict[str, list[Block]] = {}
    for block in blocks:
        files.setdefault(block.file, []).append(block)
    return [_add_up(files[name]) for name in sorted(files)]


def _count(layout: Layout, parsed: DataFrame) -> DataFrame:
    """Only whole numbers are aggregated: Spark sorts all rows to aggregate a text."""
    t_ns = F.when(F.col("whole"), F.col("t_ns")) if "t_ns" in layout.columns else F.lit(None).cast("long")
    stated = F.col("stated_jobs") if "stated_jobs" in parsed.columns else F.lit(None).cast("long")
    event = F.col("event") if "event" in parsed.columns else F.lit("")
    return (
        parsed.groupBy("file", "start_bytes")
        .agg(
            F.count("*").alias("lines"),
            F.count_if(~F.col("whole")).alias("torn_lines"),
            F.sum("line_bytes").alias("line_bytes"),
            F.max("file_bytes").alias("file_bytes"),
            F.max("line_no").alias("last_line_no"),
            F.max_by("whole", "line_no").alias("last_line_whole"),
            F.min(t_ns).alias("first_ns"),
            F.max(t_ns).alias("last_ns"),
            F.max(stated).alias("stated_jobs"),
            F.count_if(event == Event.ERROR).alias("errors"),
            F.count_if(event == Event.REFUSED).alias("refused"),
        )
        .withColumn("kind", F.lit(layout.kind))
    )


def _add_up(blocks: list[Block]) -> RecordFile:
    last = max(blocks, key=lambda block: block.start_bytes)
    unfinished = sum(block.line_bytes for block in blocks) > last.file_bytes
    return RecordFile(
        kind=last.kind,
        name=last.file,
        lines=sum(block.lines for block in blocks),
        torn_lines=sum(block.torn_lines for block in blocks) + (unfinished and last.last_line_whole),
        last_line_torn=unfinished or not last.last_line_whole,
        first_ns=min((block.first_ns for block in blocks if block.first_ns is not None), default=None),
        last_ns=max((block.last_ns for block in blocks if block.last_ns is not None), default=None),
        stated_jobs=last.stated_jobs,
        errors=sum(block.errors for block in blocks),
        refused=sum(block.refused for block in blocks),
        unfinished_line_no=last.last_line_no if unfinished else None,
    )
