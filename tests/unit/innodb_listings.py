"""The listings in ``innodb_status/``: MariaDB's are of a real server (10.11.19), MySQL's say where their format is from."""

from __future__ import annotations

from pathlib import Path

from stallbench.engines.deadlocks.deadlock import Deadlock
from stallbench.engines.innodb.deadlock_report import parse_deadlock

FOLDER = Path(__file__).parent / "innodb_status"
LISTINGS = sorted(path.stem for path in FOLDER.glob("*.txt"))


def read_listing(name: str) -> str:
    """Return the text of a listing."""
    return (FOLDER / f"{name}.txt").read_text()


def deadlock_of(name: str) -> Deadlock:
    """Return what is read from a listing."""
    deadlock = parse_deadlock(read_listing(name))
    assert deadlock is not None
    return deadlock
