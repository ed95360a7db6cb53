"""Causes other than the horizon that slowed the database down: clients that do not read, starved autovacuum, commits that wait for each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stallbench.verdicts.check import RunTables

_STARVED_S = 5.0
"""All autovacuum workers are busy for shorter times in normal operation."""
_STUCK_S = 2.0
_WAITING_S = 3
"""In fewer seconds, commits that wait for each other are a coincidence."""


def describe_stuck_clients(run: RunTables) -> str:
    """Describe the sessions whose client did not read, and how the notification queue grew; empty if there were none."""
    table = run["stuck_clients"]
    stuck = table[table["stuck_s"] >= _STUCK_S].sort_values("stuck_s", ascending=False).to_dict("records")
    if not stuck:
        return ""
    described = " ".join(_describe_stuck(row) for row in stuck[:3])
    more = f" {len(stuck) - 3} other sessions were stuck too." if len(stuck) > 3 else ""
    queue_bytes = run.metric("notification_queue_bytes", "max", None)
    percent = run.metric("notification_queue_percent", "max", None)
    grown = (
        f" The notification queue grew to {queue_bytes / 1e6:,.1f} MB, {percent:.2g} % of its limit."
        if queue_bytes and percent
        else ""
    )
    return described + more + grown


def _describe_stuck(row: dict[Any, Any]) -> str:
    name = row["longrunner"] if isinstance(row["longrunner"], str) else row["application"] or "unnamed"
    return (
        f"Session {row['pid']:.0f} on {row['server']} ({name}, {row['state']}) waited in ClientWrite from {row['from_s']:.0f} s "
        f"to {row['to_s']:.0f} s: its client did not read."
    )


def describe_starved_tables(run: RunTables) -> str:
    """Describe which of the queue's tables waited for a vacuum while all autovacuum workers were busy elsewhere; empty if none did."""
    table = run["vacuum_waits"]
    starved = table[table["starved_s"] >= _STARVED_S].sort_values("starved_s", ascending=False)
    longest = starved.drop_duplicates("table").to_dict("records")
    return " ".join(
        f"Autovacuum was starved: {row['table']} was due for a vacuum from {row['from_s']:.0f} s to {row['to_s']:.0f} s. For "
        f"{row['starved_s']:.0f} s of that time all {row['workers']:.0f} workers were busy ({row['busy_with']})."
        for row in longest
    )


def describe_notify_waits(run: RunTables) -> str:
    """Describe when commits with a NOTIFY waited for each other, and how long an enqueue took then; empty if they rarely waited."""
    windows = run["windows"]
    waiting = windows[windows["notify_lock_waits"] >= 1]
    if len(waiting) < _WAITING_S:
        return ""
    described = (
        f"From {waiting['t_s'].min():.0f} s to {waiting['t_s'].max() + 1:.0f} s commits with a NOTIFY waited for each other, "
        f"{waiting['notify_lock_waits'].mean():.1f} at a time: the server makes such commits one after the other."
    )
    baseline = next((phase.name for phase in run.record.measured_phases), None)
    before_ms = run.metric("enqueue_ms", "p95", baseline) if baseline else None
    then_ms = waiting["enqueue_ms_p95"].median()
    if before_ms is None or math.isnan(then_ms):
        return described
    return f"{described} An enqueue took {then_ms:.1f} ms (p95) at that time, and {before_ms:.1f} ms in {baseline}."
