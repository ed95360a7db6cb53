"""Measures the memory of a process together with all that it has started, while it runs.

The kernel keeps only the peak of each process. Several that run at the same time, like a Python process and its Java, have no peak together, so their
memory is read several times a second.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil

EVERY_S = 0.2
"""Reading one process takes about a millisecond for each GB that it has."""


def read_tree_bytes(pid: int) -> int:
    """Return the memory of a process and of all below it.

    It is their proportional set size (PSS): a page that several of them have mapped counts once in all. 0 if the process has ended.
    """
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            total += process.memory_full_info().pss
    return total


class TreeMemory:
    """The largest memory that a process and all below it had at the same time, from the samples that were taken while the block ran."""

    def __init__(self, pid: int) -> None:
        """Watch the tree of process ``pid``."""
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        """Begin to read."""
        self._thread.start()
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End with the last sample."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.peak_bytes = max(self.peak_bytes, read_tree_bytes(self._pid))
