"""Estimates the disk space of a soak, checks it before the soak, and limits it by removing old records."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from stallbench.base.number_text import format_bytes
from stallbench.errors import BadInputError
from stallbench.records.sealing import SEALED
from stallbench.run.folder import RunFolder
from stallbench.scenario.model import Scenario
from stallbench.studies.soak.record import CycleRun

_MB = 1_000_000
_EVENT_BYTES = 130
"""Of a line of the event log, with ids, times and the name of the process."""
_EVENTS_PER_JOB = 4
_SAMPLES_BYTES_PER_S = 12_000
"""Of all collectors together, at one sample per second."""
_JOB_ROW_BYTES = 120
"""Of a job in the table ``jobs``."""
_PAGES_BYTES = 600_000
"""What remains of a cycle: its small tables, its verdict and its page."""
SERVER_BYTES = 1_500 * _MB
"""Of a private server in the temporary folder: a gigabyte of WAL, PostgreSQL's default, and tables."""
_LOGS_BYTES = 100 * _MB
_SPARE = 1.5


def estimate_cycle_bytes(scenario: Scenario) -> int:
    """Return the estimated size of a cycle's records."""
    jobs = scenario.producers.rate * scenario.duration_s + scenario.producers.backlog
    per_job = _EVENTS_PER_JOB * _EVENT_BYTES + _JOB_ROW_BYTES
    samples = scenario.duration_s * _SAMPLES_BYTES_PER_S / scenario.collectors.interval_s if scenario.collectors.enabled else 0
    return int(jobs * per_job + samples + _PAGES_BYTES)


def bound_bytes(
    scenario: Scenario, *, cycles: int, keep: int, done: Sequence[CycleRun] = (), incomplete: Sequence[CycleRun] = ()
) -> int:
    """Return the greatest allowed size of a soak's folder.

    Records are kept of ``keep`` passed cycles, of as many that did not pass, of the last cycle, of the running cycle, and of ``incomplete``
    cycles; of all others only tables, verdict and page. The size of a cycle is estimated, or as measured if ``done`` cycles were larger.
    """
    cycle_bytes = max([estimate_cycle_bytes(scenario), *(cycle.record_bytes for cycle in done)])
    reduced_bytes = max([_PAGES_BYTES, *(cycle.bytes for cycle in done if cycle.records_removed)])
    with_records = min(2 * keep + 2, cycles)
    return int(_SPARE * ((with_records + len(incomplete)) * cycle_bytes + (cycles - with_records) * reduced_bytes) + _LOGS_BYTES)


def require_space(path: Path, scratch: Path, wanted_bytes: int, *, is_external: bool) -> None:
    """Raise `BadInputError` if ``path`` has less free space than the soak may take, or ``scratch`` less than its servers may."""
    needs = {_device(path): wanted_bytes}
    if not is_external:
        needs[_device(scratch)] = needs.get(_device(scratch), 0) + SERVER_BYTES
    for folder in (path, scratch):
        needed, free = needs.pop(_device(folder), 0), shutil.disk_usage(_existing(folder)).free
        if needed > free:
            raise BadInputError(
                f"{folder}: the soak may take {format_bytes(needed)} there, but {format_bytes(free)} are free; free some space, shorten the soak "
                "(--for), keep fewer records (--keep), or choose another folder (--runs DIR; TMPDIR for servers)"
            )


def is_space_left(path: Path, cycle_bytes: float) -> bool:
    """Whether there is space for another cycle and its tables."""
    return shutil.disk_usage(path).free > _SPARE * cycle_bytes + _LOGS_BYTES


def measure_bytes(folder: Path) -> int:
    """Return the disk space of the files in ``folder``; one that another process removes or renames meanwhile does not count."""
    used = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                used += (Path(parent) / name).lstat().st_blocks * 512
    return used


def choose_to_reduce(cycles: Sequence[CycleRun], keep: int) -> list[CycleRun]:
    """Return the cycles whose records are to be removed: all but the last ``keep`` passed ones and the first ``keep`` others.

    The last cycle always keeps its records, because the next cycle needs its final snapshot.
    """
    completed = [cycle for cycle in cycles if cycle.status == "completed"][:-1]
    passed = [cycle for cycle in completed if cycle.verdict == "pass"]
    others = [cycle for cycle in completed if cycle.verdict != "pass"]
    return [cycle for cycle in (*(passed[:-keep] if keep else passed), *others[keep:]) if not cycle.records_removed]


def remove_records(folder: RunFolder) -> None:
    """Remove a cycle's records and its table of jobs; keep its other tables, its verdict and its pages."""
    for part in (folder.events, folder.samples, folder.path / SEALED, folder.path / "tables" / "jobs"):
        shutil.rmtree(part, ignore_errors=True)
    for file in (folder.final_snapshot, folder.left_over):
        file.unlink(missing_ok=True)


def _device(path: Path) -> int:
    return _existing(path).stat().st_dev


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())
