"""Which SQL statement became slow?"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from stallbench.verdicts.check import RunTables

_FILE = "statements.jsonl"
_FEWEST_CALLS = 20
_SLOWER_BY = 1.5
"""A mean that is up to so many times another one is no difference worth a sentence."""
_LEAST_SHARE = 0.01
"""Least additional time of a statement, as a share of its phase's duration. Below it a large ratio of two small means is noise."""
_SHOWN_CHARACTERS = 120


def describe_slow_statement(run: RunTables) -> str:
    """Name the statement that took the most additional time in a later phase than it would have at the first measured phase's mean.

    Empty if the server counted no statements, or if none became slower by at least `_LEAST_SHARE`.
    """
    slowest = _find_slowest(run)
    if slowest is None:
        return ""
    texts = _read_texts(run)
    statement = texts.get(str(slowest["statement"]), {"text": f"statement {slowest['statement']}", "is_claim": False})
    text = statement["text"]
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS].rstrip()} …"
    subject = "The claim statement" if statement["is_claim"] else "A statement"
    return (
        f"{subject} became slower on the server: {slowest['mean_ms_before']:.2f} ms{_format_buffers(slowest['buffers_before'])} in "
        f"{slowest['phase_before']}, {slowest['mean_ms']:.2f} ms{_format_buffers(slowest['buffers_per_call'])} in {slowest['phase']} "
        f"({shown})."
    )


def _format_buffers(per_call: float) -> str:
    """Return how many buffers a call reads, to follow its time; ``a call`` alone if the server does not count them."""
    return " a call" if math.isnan(per_call) else f" and {per_call:,.0f} buffer{'' if round(per_call) == 1 else 's'} a call"


def _find_slowest(run: RunTables) -> dict[Any, Any] | None:
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
    return max(found.to_dict("records"), key=lambda row: float(row["added_ms"]), default=None)


def _read_texts(run: RunTables) -> dict[str, dict[str, Any]]:
    path = run.folder / _FILE
    if not path.exists():
        return {}
    texts = {}
    for line in path.read_text().splitlines():
        try:
            statement = json.loads(line)
        except ValueError:  # the last line of collectors that were killed
            continue
        texts[statement["statement"]] = statement
    return texts
