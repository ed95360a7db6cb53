"""Reads the log of a server while the server writes it."""

from __future__ import annotations

from pathlib import Path


class ServerLog:
    """Reads each line once."""

    def __init__(self, path: Path, from_byte: int = 0) -> None:
        """Start ``from_byte``, where a line begins."""
        self._path = path
        self._offset = from_byte
        self._rest = b""

    def read_lines(self) -> list[str]:
        """Return the lines that were written since the last call, without their ends; an incomplete line is left for the next call."""
        if self._path.stat().st_size < self._offset:
            self._offset, self._rest = 0, b""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = self._rest + file.read()
            self._offset = file.tell()
        *lines, self._rest = text.split(b"\n")
        return [line.decode(errors="replace") for line in lines]
