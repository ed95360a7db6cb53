"""What the kernel reports about a longrunner on a SQLite database: the evidence that it reads, and that it is gone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stallbench.records.endpoint import Endpoint
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_LOCK = re.compile(r"POSIX +ADVISORY +READ +(?P<pid>\d+) \w+:\w+:(?P<inode>\d+) (?P<first>\d+) ")
_READ_LOCKS = range(123, 128)
"""WAL_READ_LOCK(0) to (4) of SQLite's file format, "WAL-Index Locks"."""
_LOOK_S, _LOOK_EVERY_S = 1.0, 0.02
"""A reader has no lock between two transactions."""


def find_longrunner(servers: Mapping[str, Endpoint], on: str, name: str, evidence: Mapping[str, Any]) -> Evidence | None:
    """Return the lock of a reader of a SQLite database in WAL mode, as the kernel reports it. A reader has one of five locks, each on one byte of the
    file with the suffix ``-shm``.
    """
    inode = Path(f"{servers[on].database}-shm").stat().st_ino

    def find_lock() -> Evidence | None:
        for lock in _LOCK.finditer(Path("/proc/locks").read_text()):
            pid, first = int(lock["pid"]), int(lock["first"])
            if (pid, int(lock["inode"])) == (evidence.get("pid"), inode) and first in _READ_LOCKS:
                return {"source": on, "pid": pid, "lock": first, "holds_primary": True}
        return None

    return wait_until(find_lock, within_s=_LOOK_S, every_s=_LOOK_EVERY_S)
