"""What is going on right now, read from the ends of a run's records: for the eye only; the report reads all of them.

Only the last stretch of each file is read, so that watching costs the same whatever the run's length. At very high rates the
window may hold more events than that stretch: rates are then taken from the time that it does cover.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from stallbench.records.events import EVENT_COLUMNS, Event
from stallbench.records.samples import SAMPLE_COLUMNS
from stallbench.run.folder import RunFolder

_TAIL_BYTES = 128 * 1024
_WINDOW_S = 2.0
_FRESH_S = 10.0
_BRIEF_S = 1.0
"""Whoever holds the horizon for less is a worker at its work."""
_SHOWN = {"backlog", "tables", "transactions", "horizon", "locks"} | {
    f"innodb_{name}" for name in ("transactions", "horizon", "locks", "purge")
}
"""Collectors whose latest samples the view shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFigures:
    """The figures of the last two seconds; none where nothing is known (yet)."""

    enqueued_rate: float | None
    """Jobs a second."""
    completed_rate: float | None
    claim_ms_p95: float | None
    depth: int | None
    dead_tuples: int | None
    """PostgreSQL's."""
    history_list_length: int | None
    """InnoDB's."""
    deadlocks: int | None
    """Since the server's start."""
    oldest_transaction_s: float | None
    holder: str | None
    """Who holds the horizon: application, pid and state of the oldest."""


def read_live_figures(folder: RunFolder) -> LiveFigures:
    """Read the ends of the job logs and of the samples that the view shows."""
    now_ns = time.time_ns()
    claims_ns: list[int] = []
    enqueued_rate = completed_rate = 0.0
    for path in folder.events.glob("*.csv"):
        times_ns: dict[str, list[int]] = {Event.ENQUEUED: [], Event.COMPLETED: []}
        rows = _read_tail(path, len(EVENT_COLUMNS))
        since_ns = max(now_ns - int(_WINDOW_S * 1e9), int(rows[0][0]) if rows else 0)
        for row in rows:
            t_ns, event = int(row[0]), row[3]
            if t_ns < since_ns:
                continue
            if event in times_ns:
                times_ns[event].append(t_ns)
            elif event == Event.CLAIMED:
                claims_ns.append(int(row[7]))
        span_s = max((now_ns - since_ns) / 1e9, 0.1)
        enqueued_rate += len(times_ns[Event.ENQUEUED]) / span_s
        completed_rate += len(times_ns[Event.COMPLETED]) / span_s
    claims_ns.sort()
    latest = _read_latest_samples(folder.samples, now_ns)
    dead, history, deadlocks, oldest = (
        [float(value) for (_, _, metric), value in latest.items() if metric == wanted]
        for wanted in ("dead_tuples", "history_list_length", "deadlocks", "oldest_transaction_s")
    )
    depth = next((value for (_, subject, metric), value in latest.items() if (subject, metric) == ("queue", "depth")), None)
    return LiveFigures(
        enqueued_rate=enqueued_rate,
        completed_rate=completed_rate,
        claim_ms_p95=claims_ns[int(len(claims_ns) * 0.95)] / 1e6 if claims_ns else None,
        depth=int(float(depth)) if depth else None,
        dead_tuples=int(sum(dead)) if dead else None,
        history_list_length=int(max(history)) if history else None,
        deadlocks=int(sum(deadlocks)) if deadlocks else None,
        oldest_transaction_s=max(oldest) if oldest else None,
        holder=_name_holder(latest),
    )


def _read_tail(path: Path, columns: int) -> list[list[str]]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    lines = text.split("\n")
    whole = lines[1:-1] if size > _TAIL_BYTES else lines[:-1]
    rows = (line.split(",", columns - 1) for line in whole)
    return [row for row in rows if len(row) == columns and row[0].isdigit()]


def _read_latest_samples(samples: Path, now_ns: int) -> dict[tuple[str, str, str], str]:
    latest: dict[tuple[str, str, str], str] = {}
    for path in samples.glob("*.csv"):
        if path.stem not in _SHOWN:
            continue
        rows = _read_tail(path, len(SAMPLE_COLUMNS))
        newest = rows[-1][0] if rows else ""
        for row in rows:
            if row[0] == newest and now_ns - int(newest) < _FRESH_S * 1e9:
                latest[row[1], row[2], row[3]] = row[4]
    return latest


def _name_holder(latest: dict[tuple[str, str, str], str]) -> str | None:
    oldest = [(source, subject) for (source, subject, metric), value in latest.items() if metric == "rank" and value == "0"]
    if not oldest:
        return None
    source, subject = oldest[0]
    if float(latest.get((source, subject, "age_s"), _BRIEF_S)) < _BRIEF_S:
        return None
    application = latest.get((source, subject, "application")) or subject.removeprefix("holder:")
    state = latest.get((source, subject, "state"))
    pid = latest.get((source, subject, "pid"))
    about = ", ".join(part for part in (f"pid {pid}" if pid else "", state or "") if part)
    return f"{application.removeprefix('stallbench:longrunner:')} on {source}" + (f" ({about})" if about else "")
