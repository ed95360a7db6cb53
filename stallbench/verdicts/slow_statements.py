"""Which SQL statement became slow?"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from stallbench.engines.collectors.statement_counts import STATEMENTS_FILE

if TYPE_CHECKING:
    from stallbench.verdicts.check import RunTables

_FEWEST_CALLS = 20
_SLOWER_BY = 1.5
"""A mean must be more than this many times another one to be reported as slower."""
_LEAST_SHARE = 0.01
"""Smallest additional time of a statement that is reported, as a share of its phase's duration. Below it, a large ratio of two small means is
noise."""
_SHOWN_CHARACTERS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """What the calls of a statement cost in a phase, on average."""

    phase: str
    mean_ms: float
    buffers: float
    """Not a number if the server does not count them."""

    def __str__(self) -> str:
        """Return it as a phrase."""
        if math.isnan(self.buffers):
            return f"{self.mean_ms:.2f} ms a call in {self.phase}"
        plural = "" if round(self.buffers) == 1 else "s"
        return f"{self.mean_ms:.2f} ms and {self.buffers:,.0f} buffer{plural} a call in {self.phase}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slowdown:
    """A statement whose calls take longer in a phase than in the first measured one."""

    statement: str
    """Its id in the table ``statements``."""
    first: _Cost
    later: _Cost


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as the collectors recorded it."""

    text: str
    is_claim: bool


def describe_slow_statement(run: RunTables) -> str:
    """Name the statement that took the most additional time in a later phase than it would have at the first measured phase's mean.

    Empty if the server counted no statements, or if none became slower by at least `_LEAST_SHARE`.
    """
    slowest = _find_slowest(run)
    if slowest is None:
        return ""
    statement = read_statements(run).get(slowest.statement, Statement(f"statement {slowest.statement}", is_claim=False))
    text = statement.text
    whole_words = text[:_SHOWN_CHARACTERS].rpartition(" ")[0]
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{whole_words or text[:_SHOWN_CHARACTERS]} …"
    subject = "The claim statement" if statement.is_claim else "A statement"
    return f"{subject} became slower on the server: {slowest.first}, {slowest.later} ({shown})."


def _find_slowest(run: RunTables) -> _Slowdown | None:
    measured = [phase.name for phase in run.record.measured_phases]
    table = run["statements"]
    table = table[table["phase"].isin(measured) & (table["calls"] >= _FEWEST_CALLS)]
    if table.empty:
        return None
    costs = table.assign(
        mean_ms=table["total_ms"].astype(float) / table["calls"].astype(float),
        buffers_per_call=table["buffers"].astype(float) / table["calls"].astype(float),
    )
    first = costs[costs["phase"] == measured[0]][["statement", "phase", "mean_ms", "buffers_per_call"]].rename(
        columns={"phase": "phase_before", "mean_ms": "mean_ms_before", "buffers_per_call": "buffers_before"}
    )
    durations_ms = {
        phase.name: (phase.end_ns - phase.start_ns) / 1e6 if phase.start_ns and phase.end_ns else 0.0
        for phase in run.record.measured_phases
    }
    both: pd.DataFrame = costs[costs["phase"] != measured[0]].merge(first, on="statement")
    slower = both[both["mean_ms"] > _SLOWER_BY * both["mean_ms_before"]]
    added_ms = (slower["mean_ms"] - slower["mean_ms_before"]) * slower["calls"].astype(float)
    found = slower.assign(added_ms=added_ms)[added_ms >= _LEAST_SHARE * slower["phase"].map(durations_ms)]
    row = max(found.to_dict("records"), key=lambda row: float(row["added_ms"]), default=None)
    if row is None:
        return None
    return _Slowdown(
        statement=str(row["statement"]),
        first=_Cost(phase=row["phase_before"], mean_ms=row["mean_ms_before"], buffers=row["buffers_before"]),
        later=_Cost(phase=row["phase"], mean_ms=row["mean_ms"], buffers=row["buffers_per_call"]),
    )


def read_statements(run: RunTables) -> dict[str, Statement]:
    """Return what the collectors recorded of each statement, by its id."""
    path = run.folder / STATEMENTS_FILE
    if not path.exists():
        return {}
    statements = {}
    for line in path.read_text(errors="replace").splitlines():
        try:
            content = json.loads(line)
            found = Statement(str(content["text"]), bool(content["is_claim"]))
            statements[str(content["statement"])] = found
        except (
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
        ):  # a damaged line, like the last one of collectors that were killed
            continue
    return statements
