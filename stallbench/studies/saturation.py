"""Defines when a queue is saturated, both for comparisons and for backtests of a forecast."""

from __future__ import annotations

import math

import pandas as pd

SATURATED_BACKLOG_S = 1.0
"""A queue is saturated while more jobs wait than are enqueued in so many seconds."""


def find_time_to_saturation_s(windows: pd.DataFrame, rate: float) -> float | None:
    """Return the seconds from the first of ``windows`` until the queue is saturated and stays so to the last of them.

    Infinite if it is not saturated in the last one. None if ``rate`` (jobs enqueued per second) is zero, or if no depth was sampled.
    """
    depth = windows[["t_s", "depth"]].dropna().sort_values("t_s")
    if not rate or depth.empty:
        return None
    keeping_up = depth.loc[depth["depth"] <= rate * SATURATED_BACKLOG_S, "t_s"]
    if keeping_up.empty:
        return 0.0
    if keeping_up.iloc[-1] == depth["t_s"].iloc[-1]:
        return math.inf
    return float(keeping_up.iloc[-1] + 1 - depth["t_s"].iloc[0])
