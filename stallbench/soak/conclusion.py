"""From a soak's record to its drift and its pages; can be done again at any time, from its folder alone."""

from __future__ import annotations

from collections.abc import Mapping

from stallbench.processes.reaper import is_bench_alive
from stallbench.soak.drift import Drift, find_drift
from stallbench.soak.folder import SoakFolder
from stallbench.soak.junit import write_junit
from stallbench.soak.record import CycleRecord, SoakRecord
from stallbench.soak.report import make_pages

_HOUR_S = 3600.0


def conclude_soak(folder: SoakFolder) -> tuple[SoakRecord, Mapping[str, Drift | None], bool]:
    """Find the drift, write record and pages, and say whether the soak goes on; raises `BadInputError` if ``folder`` holds no soak.

    The record of a soak that goes on under another process is that one's, and left to it.
    """
    record = folder.read()
    drifts = find_drifts(record)
    record = record.model_copy(update={"drift": {name: drift.as_json() if drift else None for name, drift in drifts.items()}})
    goes_on = record.status == "running" and is_bench_alive(dict(record.bench))
    if not goes_on:
        folder.write(record)
    write_junit(folder, record)
    make_pages(folder, record, drifts, goes_on=goes_on)
    return record, drifts, goes_on


def find_drifts(record: SoakRecord) -> Mapping[str, Drift | None]:
    """Return the drift of each figure that two cycles have, by name; none if it was of something else in each cycle."""
    begins_h = dict(zip((cycle.number for cycle in record.whole), begin_hours(record), strict=True))
    names = dict.fromkeys(name for cycle in record.whole for name in cycle.figures)
    drifts: dict[str, Drift | None] = {}
    for name in names:
        cycles = [cycle for cycle in record.whole if name in cycle.figures]
        if len(cycles) > 1:
            drifts[name] = find_drift(
                [begins_h[cycle.number] for cycle in cycles],
                [cycle.figures[name].value for cycle in cycles],
                [_line_of(cycle, name) for cycle in cycles],
            )
    return drifts


def begin_hours(record: SoakRecord) -> list[float]:
    """Return when each whole cycle began, in hours of the bench's life since the first: the time in which there was none is left out."""
    hours, spent_s = [], 0.0
    for cycle in record.whole:
        hours.append(spent_s / _HOUR_S)
        spent_s += cycle.spent_s
    return hours


def _line_of(cycle: CycleRecord, name: str) -> tuple[int, str]:
    return cycle.interval, cycle.figures[name].of
