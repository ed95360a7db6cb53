"""The course of the runs, second by second: of each variant one curve, the median of its repetitions at that second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from stallbench.comparison.record import ComparisonRecord
from stallbench.report.charts import cut_windows, list_faults, list_phases
from stallbench.verdicts.check import RunTables

COLUMNS = ("claim_ms_p95", "depth", "dead_tuples", "completed")
_MOST_POINTS = 20_000
"""Of all curves of one chart together."""


def read_curves(record: ComparisonRecord, runs: Path) -> dict[str, Any]:
    """Return what the charts draw, for JSON: ``t_s``, ``variants``, ``columns`` (by name, then variant), ``phases`` and ``faults``.

    ``runs``: where the folders of the runs are; those that are gone are left out. Phases and faults, the bands behind the curves, are those
    of the first run of the reference, or of whichever variant comes first and has one.
    """
    by_variant: dict[str, list[RunTables]] = {name: [] for name in record.names}
    for run in record.runs:
        if run.status == "completed" and run.folder is not None and (runs / run.folder / "tables").is_dir():
            by_variant[run.variant].append(RunTables(runs / run.folder))
    medians = {name: _find_medians(tables) for name, tables in by_variant.items()}
    last_s = max((int(frame.index.max()) for frame in medians.values() if len(frame)), default=-1)
    step = 1 + (last_s + 1) * len(medians) // _MOST_POINTS
    t_s = range(0, last_s + 1, step)
    first = next((tables[0] for tables in by_variant.values() if tables), None)
    return {
        "t_s": list(t_s),
        "variants": record.names,
        "columns": {
            column: {name: _as_list(frame[column].reindex(t_s)) for name, frame in medians.items()} for column in COLUMNS
        },
        "phases": list_phases(first.record) if first else [],
        "faults": list_faults(first) if first else [],
    }


def _find_medians(repetitions: Sequence[RunTables]) -> pd.DataFrame:
    """Return `COLUMNS` by second."""
    frames = [cut_windows(tables).set_index("t_s")[list(COLUMNS)].astype(float) for tables in repetitions]
    if not frames:
        return pd.DataFrame(columns=list(COLUMNS), dtype=float)
    return pd.concat(frames).groupby(level=0).median()


def _as_list(values: pd.Series[float]) -> list[float | None]:
    return [None if pd.isna(value) else float(value) for value in values]
