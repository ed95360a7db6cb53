"""For how long a queue holds out: from the beginning of a phase until it has fallen behind for good."""

from __future__ import annotations

from stallbench.verdicts.check import RunTables

_BEHIND_S = 1.0
"""More than the jobs of so many seconds wait."""


def find_time_to_saturation_s(run: RunTables, phase: str) -> float | None:
    """Return the seconds from the beginning of ``phase`` to the last time in it that no more than a second's worth of jobs waited.

    The phase's whole length if that is still so at its end; 0 if it never was. None without a rate, or if nobody looked at the depth.
    """
    behind = run.record["scenario"]["producers"]["rate"] * _BEHIND_S
    windows = run["windows"].sort_values("t_s")
    depth = windows.loc[windows["phase"] == phase, ["t_s", "depth"]].dropna()
    if not behind or depth.empty:
        return None
    begin_s = depth["t_s"].iloc[0]
    keeping_up = depth.loc[depth["depth"] <= behind, "t_s"]
    return float(keeping_up.iloc[-1] + 1 - begin_s) if len(keeping_up) else 0.0
