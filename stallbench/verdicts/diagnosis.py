"""What kept the queue's tables from being vacuumed, notifications from being read, or commits from being made, besides who held the horizon."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stallbench.verdicts.check import RunTables

_STARVED_S = 5.0
"""All workers being busy for less than this is their daily work."""
_STUCK_S = 2.0
_IN_LINE_S = 3
"""Commits that are seen in line for fewer seconds met by chance."""


def describe_stuck_clients(run: RunTables) -> str:
    """Say whose client did not read, and what became of the notification queue meanwhile; nothing if everybody read."""
    table = run["stuck_clients"]
    stuck = table[table["stuck_s"] >= _STUCK_S].sort_values("stuck_s", ascending=False).to_dict("records")
    if not stuck:
        return ""
    told = " ".join(_describe_stuck(row) for row in stuck[:3])
    more = f" So were {len(stuck) - 3} other sessions." if len(stuck) > 3 else ""
    queue_bytes = run.metric("notification_queue_bytes", "max", None)
    percent = run.metric("notification_queue_percent", "max", None)
    grown = (
        f" The notification queue grew to {queue_bytes / 1e6:,.1f} MB, {percent:.2g} % of what it takes."
        if queue_bytes and percent
        else ""
    )
    return told + more + grown


def _describe_stuck(row: dict[Any, Any]) -> str:
    who = row["longrunner"] if isinstance(row["longrunner"], str) else row["application"] or "unnamed"
    return (
        f"Session {row['pid']:.0f} on {row['server']} ({who}, {row['state']}) was stuck in ClientWrite from {row['from_s']:.0f} s "
        f"to {row['to_s']:.0f} s: its client does not read."
    )


def describe_starved_tables(run: RunTables) -> str:
    """Say which of the queue's tables waited for a vacuum while every autovacuum worker was busy elsewhere; nothing if none did."""
    table = run["vacuum_waits"]
    starved = table[table["starved_s"] >= _STARVED_S].sort_values("starved_s", ascending=False)
    longest = starved.drop_duplicates("table").to_dict("records")
    return " ".join(
        f"Autovacuum was starved: {row['table']} was due from {row['from_s']:.0f} s to {row['to_s']:.0f} s and nobody came, for "
        f"{row['starved_s']:.0f} s of it because all {row['workers']:.0f} workers were busy ({row['busy_with']})."
        for row in longest
    )


def describe_notify_waits(run: RunTables) -> str:
    """Say when commits with a NOTIFY waited for each other, and what an enqueue took then; nothing if they did so by chance only."""
    windows = run["windows"]
    in_line = windows[windows["notify_lock_waits"] >= 1]
    if len(in_line) < _IN_LINE_S:
        return ""
    told = (
        f"From {in_line['t_s'].min():.0f} s to {in_line['t_s'].max() + 1:.0f} s commits that notify (NOTIFY) waited for each other, "
        f"{in_line['notify_lock_waits'].mean():.1f} at a time: a server makes one of these after the other."
    )
    baseline = next((phase["name"] for phase in run.record["phases"] if phase["measured"]), None)
    before_ms = run.metric("enqueue_ms", "p95", baseline) if baseline else None
    then_ms = in_line["enqueue_ms_p95"].median()
    if before_ms is None or math.isnan(then_ms):
        return told
    return f"{told} An enqueue took {then_ms:.1f} ms then (p95), and {before_ms:.1f} ms in {baseline}."
