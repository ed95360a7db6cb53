"""The lines of record files: which characters no value contains, and how they are read while their writers are still running."""

from __future__ import annotations

import os
from pathlib import Path

REPLACED_IN_VALUES = str.maketrans({",": ";", "\n": " ", "\r": " ", "\t": " ", '"': "'"})
"""For `str.translate`: a value of a record contains neither what separates values nor what ends a line, so that no reader needs quotes."""


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
