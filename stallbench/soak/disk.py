"""How much space a soak takes: estimated and looked for before it begins, bounded by what is removed, and held to that while it goes on."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.run.folder import RunFolder
from stallbench.scenario.model import Scenario
from stallbench.soak.record import CycleRecord

_MB = 1_000_000
_EVENT_BYTES = 130
"""Of a line of the job log, with ids, times and the name of the process."""
_EVENTS_PER_JOB = 4
_SAMPLES_BYTES_PER_S = 12_000
"""Of all collectors together, at one sample a second."""
_JOB_ROW_BYTES = 120
"""Of a job in the table ``jobs``."""
_PAGES_BYTES = 600_000
"""What stays of a cycle: its small tables, its verdict, its page."""
_SERVER_BYTES = 1_500 * _MB
"""What a server of the bench's own may come to in the temporary folder: a gigabyte of WAL, as PostgreSQL's default has it, and tables."""
_LOGS_BYTES = 100 * _MB
_SPARE = 1.5


def estimate_cycle_bytes(scenario: Scenario) -> int:
    """Return about how much a cycle records."""
    jobs = scenario.producers.rate * scenario.duration_s + scenario.producers.backlog
    per_job = _EVENTS_PER_JOB * _EVENT_BYTES + _JOB_ROW_BYTES
    samples = scenario.duration_s * _SAMPLES_BYTES_PER_S / scenario.collectors.interval_s if scenario.collectors.enabled else 0
    return int(jobs * per_job + samples + _PAGES_BYTES)


def bound_bytes(
    scenario: Scenario, *, cycles: int, keep: int, done: Sequence[CycleRecord] = (), broken: Sequence[CycleRecord] = ()
) -> int:
    """Return the most that a soak's folder may hold.

    Records are kept of ``keep`` passed cycles, of as many that did not pass, of the last one, and of the one that goes on; of all others what is left
    when they were thinned; those that were ``broken`` off keep theirs. A cycle's size is estimated; where those that were ``done`` were
    larger, as measured.
    """
    cycle_bytes = max([estimate_cycle_bytes(scenario), *(cycle.record_bytes for cycle in done)])
    thinned_bytes = max([_PAGES_BYTES, *(cycle.bytes for cycle in done if cycle.is_thinned)])
    whole = min(2 * keep + 2, cycles)
    return int(_SPARE * ((whole + len(broken)) * cycle_bytes + (cycles - whole) * thinned_bytes) + _LOGS_BYTES)


def require_space(path: Path, scratch: Path, wanted_bytes: int, *, is_joined: bool) -> None:
    """Raise `BadInputError` if there is not as much free space at ``path`` as the soak may take, or at ``scratch`` as its servers may."""
    needs = {_device(path): wanted_bytes}
    if not is_joined:
        needs[_device(scratch)] = needs.get(_device(scratch), 0) + _SERVER_BYTES
    for place in (path, scratch):
        needed, free = needs.pop(_device(place), 0), shutil.disk_usage(_existing(place)).free
        if needed > free:
            raise BadInputError(
                f"{place}: the soak may take {format_bytes(needed)} there, but {format_bytes(free)} are free; "
                "make room, soak for less (--for), keep fewer records (--keep), or choose another place (--runs DIR; TMPDIR for servers)"
            )


def is_space_left(path: Path, cycle_bytes: float) -> bool:
    """Whether another cycle and what is made of it find room."""
    return shutil.disk_usage(path).free > _SPARE * cycle_bytes + _LOGS_BYTES


def measure_bytes(folder: Path) -> int:
    """Return what the files in ``folder`` take."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if not path.is_dir())


def choose_to_thin(cycles: Sequence[CycleRecord], keep: int) -> list[CycleRecord]:
    """Return the cycles whose records are not kept any more: all but the last ``keep`` passed ones and the first ``keep`` others.

    The last of all keeps them too: what its final snapshot has found goes into the next one.
    """
    whole = [cycle for cycle in cycles if cycle.status == "completed"][:-1]
    passed = [cycle for cycle in whole if cycle.verdict == "pass"]
    others = [cycle for cycle in whole if cycle.verdict != "pass"]
    return [cycle for cycle in (*(passed[:-keep] if keep else passed), *others[keep:]) if not cycle.is_thinned]


def thin(folder: RunFolder) -> None:
    """Remove a cycle's records and its table of jobs; its other tables, verdict and pages stay."""
    for part in (folder.events, folder.samples, folder.path / "tables" / "jobs"):
        shutil.rmtree(part, ignore_errors=True)
    for file in (folder.final_snapshot, folder.left_over):
        file.unlink(missing_ok=True)


def format_bytes(count: float) -> str:
    """Return a size in words."""
    if count >= 1000 * _MB:
        return f"{count / 1000 / _MB:.1f} GB"
    return f"{count / _MB:.1f} MB" if count < 10 * _MB else f"{count / _MB:.0f} MB"


def _device(path: Path) -> int:
    return _existing(path).stat().st_dev


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())
