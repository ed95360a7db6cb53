"""The results, a line of JSON each: appended with one write, so that a run that is killed is continued where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stallbench import PROJECT

RESULTS = PROJECT / "docs" / "results" / "mutants.jsonl"
"""What the page is made from."""


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Add a record, and wait until it is on the disk; a line that a killed process has begun is ended first."""
    line = json.dumps(record, ensure_ascii=False) + "\n"
    with path.open("a+b") as file:
        if file.tell() and not _ends_a_line(path):
            line = "\n" + line
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records in order, without a line that was not written to its end; none if there is no file."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def latest(records: Iterable[Mapping[str, Any]], kind: str) -> dict[str, Mapping[str, Any]]:
    """Return the last record of each mutant. ``kind``: ``operations`` or ``crash points``."""
    return {record["mutant"]: record for record in records if record["kind"] == kind}
