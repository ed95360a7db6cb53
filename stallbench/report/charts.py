"""What the charts of a report draw: seconds, bands of phases and faults, bars of holders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from stallbench.verdicts import RunTables, Verdict

_CHART_COLUMNS = (
    "oldest_transaction_s",
    "depth",
    "claim_ms_p50",
    "claim_ms_p95",
    "dead_tuples",
    "history_list_length",
    "deadlocks_in_claim",
    "deadlocks_in_complete",
    "re_executions",
    "enqueued",
    "completed",
    "latency_ms_p50",
    "latency_ms_p95",
)
_MOST_POINTS = 5000
_MOST_BARS = 12


def cut_windows(run: RunTables) -> pd.DataFrame:
    """Return the whole seconds of the phases, in order."""
    windows = run["windows"].sort_values("t_s")
    # The last second is cut off by the end of the load, and would look like a collapse.
    ends_ns = [phase["end_ns"] for phase in run.record["phases"] if phase["end_ns"]]
    return windows[(windows["t_s"] >= 0) & (windows["t_ns"] + 10**9 <= max(ends_ns, default=2**63 - 1))]


def list_phases(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the phases that have begun, for the bands of a chart: ``name``, ``from_s``, ``to_s`` (none if its end is not known)."""
    start_ns = next((phase["start_ns"] for phase in record["phases"] if phase["start_ns"]), 0)
    return [
        {
            "name": phase["name"],
            "from_s": (phase["start_ns"] - start_ns) / 1e9,
            "to_s": (phase["end_ns"] - start_ns) / 1e9 if phase["end_ns"] else None,
        }
        for phase in record["phases"]
        if phase["start_ns"]
    ]


def list_injections(run: RunTables) -> list[dict[str, Any]]:
    """Return the injections of each phase, for the bands of a chart: ``name``, ``target``, ``from_s``, ``to_s``, each none if unknown.

    Maintenance, which lasts for the whole run, has no band.
    """
    injections = run["injections"]
    return [
        {key: None if pd.isna(row[key]) else row[key] for key in ("name", "target", "from_s", "to_s")}
        for row in injections[injections["phase"].notna()].to_dict("records")
    ]


def as_script_data(data: Mapping[str, Any]) -> str:
    """Return ``data`` as JSON that is safe inside a script element."""
    return json.dumps(data).replace("<", "\\u003c")


def make_chart_data(run: RunTables, verdict: Verdict) -> str:
    """Return what the charts draw, as JSON that is safe inside a script element."""
    windows = cut_windows(run)
    step = 1 + len(windows) // _MOST_POINTS
    columns = {
        name: [None if pd.isna(v) else float(v) for v in windows[name].iloc[::step]] for name in _CHART_COLUMNS if name in windows
    }
    data = {
        "t_s": [int(t) for t in windows["t_s"].iloc[::step]],
        "columns": columns,
        "phases": list_phases(run.record),
        "bands": list_injections(run),
        "holders": [
            {"name": stay.name, "server": stay.server, "from_s": stay.from_s, "to_s": stay.to_s, "about": stay.description}
            for stay in sorted(verdict.attribution.holders, key=lambda stay: stay.from_s)[:_MOST_BARS]
        ],
        "rounds": run["rounds"].to_numpy().tolist(),
        "order": run["order"].sort_values("diff")[["diff", "claims"]].to_numpy().tolist(),
    }
    return as_script_data(data)
