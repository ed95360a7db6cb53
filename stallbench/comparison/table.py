"""A comparison's own table: a row for each variant, the columns that the scenario asks for, and what could not be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stallbench.comparison.formatting import format_median, format_spread
from stallbench.comparison.record import ComparisonRecord
from stallbench.comparison.results import Results

NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTable:
    """The table as text."""

    titles: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    """By variant, the reference first: a cell for each title."""
    not_run: Mapping[str, str]
    """Rows without figures: by name, ``not run`` and why."""


def make_own_table(record: ComparisonRecord, results: Results) -> OwnTable | None:
    """Return the table; none if the scenario asks for none. A cell is the median of a variant's runs, and their spread if they differ."""
    if not record.columns:
        return None
    compared = {each.subject.key: each for each in results.compared}

    def describe(key: str, name: str) -> str:
        if key not in compared:
            return "no data"
        standing = compared[key].standings[name]
        spread = standing.spread
        differs = spread is not None and spread.low != spread.high
        return f"{format_median(standing)} ({format_spread(standing)})" if differs else format_median(standing)

    return OwnTable(
        titles=tuple(record.columns),
        rows={name: tuple(describe(key, name) for key in record.columns.values()) for name in record.names},
        not_run={name: f"{NOT_RUN}: {reason}" for name, reason in record.left_out.items()},
    )
