"""Reads the lines of record files, even while their writers are still running."""

from __future__ import annotations

import os
from pathlib import Path


def read_whole_lines(path: Path, tail_bytes: int | None = None) -> list[str]:
    """Return the whole lines of a file, without their ends; none if there is no file.

    ``tail_bytes``: read no more than these last bytes. The first line is then left out if it begins before them. The last line is left out
    while its end is missing.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = 0 if tail_bytes is None else max(0, size - tail_bytes)
            file.seek(start)
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    lines = text.split("\n")
    return lines[1 if start else 0 : -1]
