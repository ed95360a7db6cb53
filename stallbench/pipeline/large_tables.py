"""Reads tables that may be larger than memory: in batches, or only the first rows."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from stallbench.base.storage.address import AnyPath
from stallbench.pipeline.tables import SORTED_BY, open_table, require_bounded_text, schema_of, to_pandas

_WORD = pa.dictionary(pa.int32(), pa.string())

LARGE = frozenset({"jobs", "order", "duplicates", "rounds"})
"""Tables whose rows grow with the jobs of a run. A queue that keeps its promises has few rows in all of them but ``jobs``."""


def read_batches(
    run_folder: AnyPath, name: str, columns: list[str], *, where: pc.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the ``columns`` of the rows ``where`` that holds (all rows if none), some ten thousand rows at a time, in any order.

    ``where``: of columns without text. Raises as `stallbench.pipeline.tables.read_table` does.
    """
    declared = schema_of(name)
    # A text is read as the file has it, once, until it is known how much the rows have together.
    encoded = pa.schema([each.with_type(_WORD) if pa.types.is_string(each.type) else each for each in declared])
    table = open_table(run_folder, name, encoded)  # a file without rows may have been written with other types
    plain = pa.schema([declared.field(column) for column in columns])
    for batch in table.to_batches(columns=columns, filter=where, fragment_readahead=1, batch_readahead=1):
        require_bounded_text(run_folder, name, batch)
        yield batch.cast(plain)


def read_first(run_folder: AnyPath, name: str, count: int, *, where: pc.Expression | None = None) -> pd.DataFrame:
    """Return the first ``count`` rows, in the order in which `stallbench.pipeline.tables.read_table` has them.

    ``where`` and errors are those of `read_batches`.
    """
    schema = schema_of(name)
    keys = [(key, "ascending") for key in SORTED_BY[name]]
    first = schema.empty_table()
    for batch in read_batches(run_folder, name, schema.names, where=where):
        both = pa.concat_tables([first, pa.Table.from_batches([batch])])
        first = both.take(pc.select_k_unstable(both, min(count, both.num_rows), keys))
    return to_pandas(name, first)


def field(name: str) -> pc.Expression:
    """Return a column, for ``where``."""
    return ds.field(name)
