"""Reads the log of a server while the server writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stallbench.visible_text import make_visible

_CHUNK_BYTES = 1 << 20


class ServerLog:
    """Reads each line once."""

    def __init__(self, path: Path, from_byte: int = 0) -> None:
        """Start with the first line that begins ``from_byte`` or later. A log that is replaced or emptied afterwards is read from its beginning."""
        self._path = path
        # From the byte before: if a line begins at from_byte, that byte is the end of the former line.
        self._offset = max(0, from_byte - 1)
        self._is_within_line = from_byte > 0
        self._rest = b""
        self._inode: int | None = None

    def read_lines(self) -> Iterator[str]:
        """Yield the lines that were written since the last call, without their ends, made visible; an incomplete line is left for the next call.

        Raises `OSError` if the log cannot be read, as while it is replaced.
        """
        with self._path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size < self._offset or self._inode not in (None, found.st_ino):
                self._offset, self._rest, self._is_within_line = 0, b"", False
            self._inode = found.st_ino
            file.seek(self._offset)
            while chunk := file.read(_CHUNK_BYTES):
                self._offset = file.tell()
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                if self._is_within_line and lines:
                    self._is_within_line = False
                    del lines[0]
                for line in lines:
                    yield make_visible(line.decode(errors="replace"))
