"""Reads the tables of a run without Spark and Java; verdicts and report use pandas.

Most tables are small: their size grows with the seconds and the phases of a run. ``jobs`` has a row for each job and may be huge. If a queue
breaks its promises, ``duplicates``, ``order`` and ``rounds`` may also be huge. They are never read completely: ``conservation`` and
``phases`` summarise them, and `stallbench.pipeline.large_tables` reads their rows in batches.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from stallbench.base.storage.address import AnyPath
from stallbench.measure_definition import FromSamples
from stallbench.measures import MEASURES
from stallbench.pipeline.failures import NoTableError
from stallbench.shell_command import format_shell_command


def _list_window_columns() -> str:
    """Return the columns of ``windows``: a count for each measure of events, statistics by the second, the last of each sampled measure."""
    counts = [f"{name} long" for name, measure in MEASURES.items() if measure.is_counted]
    values = [f"{name}_{statistic} double" for name, measure in MEASURES.items() for statistic in measure.by_second]
    samples = [f"{name} double" for name, measure in MEASURES.items() if isinstance(measure.source, FromSamples)]
    return ", ".join(["t_s int", "t_ns long", "phase string", *counts, *values, *samples])


TABLES = {
    "jobs": (
        "job_id long, intended_ns long, enqueue_began_ns long, enqueued_ns long, first_claim_began_ns long, first_claimed_ns long, "
        "first_completed_ns long, claims long, executions long, completions long, failures long, last_process string, "
        "latency_ms double, state string, enqueue_recorded boolean, enqueue_failed boolean, left_over boolean, held_after_completion boolean"
    ),
    "windows": _list_window_columns(),
    "phases": "phase string, measure string, statistic string, value double, count long",
    "conservation": "state string, jobs long, examples array<long>",
    "duplicates": (
        "job_id long, executions long, completions long, processes string, excused boolean, reason string, attempts string, "
        "attempts_ascend boolean"
    ),
    "order": "diff long, claims long",
    "overdue": "kind string, jobs long, examples array<long>, longest_s double",
    "rounds": "round long, jobs long",
    "waiting": "rule string, jobs long, claimed long, broken long, examples array<long>",
    "holders": (
        "server string, holder string, kind string, pid long, application string, state string, via string, catalog_only boolean, "
        "from_ns long, to_ns long, from_s double, to_s double, max_age_s double, max_age_xids long, oldest_s double, longrunner string"
    ),
    "stuck_clients": (
        "server string, session string, pid long, application string, state string, from_s double, to_s double, stuck_s double, "
        "longrunner string"
    ),
    "vacuum_waits": (
        "table string, from_s double, to_s double, waited_s double, starved_s double, workers int, busy_with string"
    ),
    "statements": "phase string, statement string, calls long, total_ms double, row_count long, buffers long",
    "injections": (
        "name string, category string, kind string, target string, phase string, planned_start_s double, start_ns long, "
        "verified_ns long, end_ns long, from_s double, to_s double, active_to_end boolean"
    ),
    "recoveries": (
        "fault string, phase string, end_s double, to_first_completion_s double, to_rate_s double, to_empty_backlog_s double, "
        "next_change string, next_change_s double, lost long, re_completed long, re_executed long, errors long"
    ),
    "errors": (
        "phase string, latest_phase string, process string, event string, kind string, operation string, faults array<string>, "
        "count long"
    ),
    "torn": "file string, lines long, torn_lines long, last_line_torn boolean",
}
"""Every table, and its columns with their types as Spark writes them; their meanings are in docs/run-folder.md."""

EXAMPLES = 20
"""Of job ids, in each row of a table of findings."""
MADE_WHOLE = "_SUCCESS"
"""The file that Spark adds to a table's folder once everything in it has been written."""

MOST_ROWS = 1_000_000
"""Of a table that is read completely: a second of a run has a row in the largest, so this is eleven days. A few kilobytes of Parquet can hold more."""

MOST_VALUES = 10 * MOST_ROWS
"""Of a column of such a table, those in its lists included."""
MOST_TEXT_BYTES = 1 << 30
"""Of a column of such a table. Parquet stores a text that is repeated once, so that a file of some kilobytes can hold a terabyte."""

_TYPES = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "array<long>": pa.list_(pa.int64()),
    "array<string>": pa.list_(pa.string()),
}
_WHOLE_NUMBERS = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}
SORTED_BY = {
    "jobs": ["job_id"],
    "windows": ["t_s"],
    "phases": ["phase", "measure", "statistic"],
    "conservation": ["state"],
    "duplicates": ["job_id"],
    "order": ["diff"],
    "overdue": ["kind"],
    "rounds": ["round"],
    "waiting": ["rule"],
    "holders": ["from_ns", "server", "holder"],
    "stuck_clients": ["from_s", "session"],
    "vacuum_waits": ["from_s", "table"],
    "statements": ["phase", "statement"],
    "injections": ["start_ns", "name"],
    "recoveries": ["end_s", "fault"],
    "errors": ["phase", "latest_phase", "process", "kind", "operation"],
    "torn": ["file"],
}
"""What the rows of a table are sorted by when it is read; Spark writes them in any order."""


def read_table(run_folder: AnyPath, name: str, columns: list[str] | None = None) -> pd.DataFrame:
    """Return table ``name`` of a run, or only its ``columns``, in an order that is always the same.

    Whole numbers that may be missing come as ``Int64``, so that a time in nanoseconds is never rounded by a NaN beside it. Raises
    `NoTableError` if the table is not there, not whole, or not one that the bench has made.
    """
    table = open_table(run_folder, name)
    try:
        if (rows := table.count_rows()) > MOST_ROWS:
            raise NoTableError(_say(run_folder, name, f"has {rows:,} rows, and at most {MOST_ROWS:,} are read"))
        declared = schema_of(name)
        known = [column for column in table.schema if column.name in declared.names]
        if rows and not known:
            raise NoTableError(_say(run_folder, name, "has none of its columns"))
        wrong = [column.name for column in known if not _is_alike(column.type, declared.field(column.name).type)]
        if rows and wrong:
            raise NoTableError(_say(run_folder, name, f"has something else in its column {wrong[0]}"))
        return to_pandas(name, _read_bounded(run_folder, name, table, columns))
    except pa.ArrowException as error:
        raise NoTableError(_say(run_folder, name, f"cannot be read ({str(error).splitlines()[0]})")) from None


def _read_bounded(run_folder: AnyPath, name: str, table: ds.Dataset, columns: list[str] | None) -> pa.Table:
    """Return the rows of a table of few rows. Its texts are read as the file has them, each once, until it is known how much they are together."""
    texts = set[str]()
    values: dict[str, int] = {}
    for fragment in table.get_fragments():
        for group in map(fragment.metadata.row_group, range(fragment.metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                values[column.path_in_schema] = values.get(column.path_in_schema, 0) + column.num_values
                if column.physical_type == "BYTE_ARRAY":
                    texts.add(column.path_in_schema)
    for path, count in values.items():
        if count > MOST_VALUES:
            raise NoTableError(
                _say(run_folder, name, f"has {count:,} values in its column {path}, and at most {MOST_VALUES:,} are read")
            )
    found = ds.dataset(table.files, format=ds.ParquetFileFormat(dictionary_columns=texts), filesystem=table.filesystem).to_table(
        columns=columns
    )
    require_bounded_text(run_folder, name, found)
    return found.cast(pa.schema([field.with_type(_as_plain(field.type)) for field in found.schema]))


def require_bounded_text(run_folder: AnyPath, name: str, rows: pa.Table | pa.RecordBatch) -> None:
    """Raise `NoTableError` if the texts of a column of table ``name``, of which the rows have each once, are more than `MOST_TEXT_BYTES` together."""
    for column in rows.schema.names:
        values = rows[column]
        size = sum(map(_measure_text, values.chunks if isinstance(values, pa.ChunkedArray) else [values]))
        if size > MOST_TEXT_BYTES:
            what = f"has {size:,} bytes of text in its column {column}, and at most {MOST_TEXT_BYTES:,} are read"
            raise NoTableError(_say(run_folder, name, what))


def _measure_text(values: pa.Array) -> int:
    """Return how many bytes the texts of a column are, each as often as it is repeated."""
    if pa.types.is_list(values.type):
        return _measure_text(values.flatten())
    if not pa.types.is_dictionary(values.type):
        return 0
    return int(pc.sum(pc.binary_length(values.dictionary).cast(pa.int64()).take(values.indices)).as_py() or 0)


def _as_plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_as_plain(kind.value_type))
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def open_table(run_folder: AnyPath, name: str, schema: pa.Schema | None = None) -> ds.Dataset:
    """Return table ``name`` of a run, with the columns of ``schema`` or those of its files, without reading rows; raises as `read_table` does."""
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    folder = run_folder / "tables" / name
    if not (folder / MADE_WHOLE).is_file():
        raise NoTableError(_say(run_folder, name, "is not there or not whole"))
    try:
        words = [column.name for column in schema or () if pa.types.is_dictionary(column.type)]
        form = ds.ParquetFileFormat(dictionary_columns=words)
        if isinstance(folder, Path):
            return ds.dataset(folder, schema, format=form)
        return ds.dataset(folder.path, schema, format=form, filesystem=folder.fs)
    except pa.ArrowException as error:
        raise NoTableError(_say(run_folder, name, f"cannot be read ({str(error).splitlines()[0]})")) from None


def _is_alike(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether a column has numbers, texts, truth values or lists where those are declared; one without a value may have been written as any."""
    kinds = (_is_number, pa.types.is_string, pa.types.is_boolean, pa.types.is_list)
    return pa.types.is_null(found) or any(is_kind(found) and is_kind(declared) for is_kind in kinds)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def schema_of(name: str) -> pa.Schema:
    """Return the declared columns of a table."""
    pairs = (column.split(" ") for column in TABLES[name].split(", "))
    return pa.schema([(column, _TYPES[kind]) for column, kind in pairs])


def _say(run_folder: AnyPath, name: str, what: str) -> str:
    remedy = format_shell_command(["stallbench", "report", run_folder])
    return f"{run_folder / 'tables' / name}: the table {what}; make it by: {remedy}"


def to_pandas(name: str, table: pa.Table) -> pd.DataFrame:
    """Return rows of table ``name`` as `read_table` does."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=_WHOLE_NUMBERS.get)
    keys = [key for key in SORTED_BY[name] if key in frame]
    return frame.sort_values(keys, ignore_index=True) if keys else frame
