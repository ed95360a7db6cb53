"""Polls the backlog of a queue, also while its server is down, and writes the final snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from stallbench.engines import describe_error, loaded_errors
from stallbench.errors import NotCarriedOutError
from stallbench.queues import Queue
from stallbench.records.final_snapshot import format_snapshot

BACKLOG_AGE_S = 1.0
"""A ready job that has waited for this long is backlog; a younger one is about to be claimed."""
CAUGHT_UP_FOR_S = 5.0
"""How long there must be no backlog. A single poll is not enough: it may fall between two bursts, or into a moment in which no job could be enqueued."""

FALLEN_BEHIND_S = 10.0
"""How long a ready job must have waited before the workers count as fallen behind; a moment in which the machine stalls is shorter."""

_T = TypeVar("_T")


class BacklogPoll:
    """Asks the queue for its backlog over one connection, which it reopens after an error. Use it as a context manager."""

    def __init__(
        self, opened_queue: Callable[[], AbstractContextManager[Queue[Any]]], *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Open nothing yet. ``opened_queue`` opens the queue on the current primary."""
        self._opened_queue = opened_queue
        self._now_s = now_s
        self._stack = ExitStack()
        self._queue: Queue[Any] | None = None
        self._caught_up_since_s: float | None = None

    def __enter__(self) -> Self:
        self._queue = self._stack.enter_context(self._opened_queue())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def is_drained(self) -> bool:
        """Whether the queue holds no job; False if the queue cannot be reached."""
        return self._query(lambda queue: queue.is_drained()) or False

    def is_caught_up(self) -> bool:
        """Whether no ready job has waited for `BACKLOG_AGE_S`, at every poll of the last `CAUGHT_UP_FOR_S`.

        False if the queue cannot be reached.
        """
        backlog = self._query(lambda queue: queue.backlog())
        now_s = self._now_s()
        if backlog is None or (backlog.oldest_job_s or 0.0) >= BACKLOG_AGE_S:
            self._caught_up_since_s = None
            return False
        if self._caught_up_since_s is None:
            self._caught_up_since_s = now_s
        return now_s - self._caught_up_since_s >= CAUGHT_UP_FOR_S

    def is_fallen_behind(self) -> bool:
        """Whether a ready job has waited for `FALLEN_BEHIND_S`; False if the queue cannot be reached."""
        backlog = self._query(lambda queue: queue.backlog())
        return backlog is not None and (backlog.oldest_job_s or 0.0) >= FALLEN_BEHIND_S

    def _query(self, query: Callable[[Queue[Any]], _T]) -> _T | None:
        try:
            if self._queue is None:
                self._queue = self._stack.enter_context(self._opened_queue())
            return query(self._queue)
        except loaded_errors():
            self._queue = None
            self._stack.close()
            return None


def take_final_snapshot(queue: Queue[Any], path: Path) -> int:
    """Write every job of the queue to ``path``, in the format of docs/run-folder.md, and return their number.

    The file is renamed to ``path`` when it is complete: with an incomplete snapshot, queued jobs would be counted as lost.
    Raises `NotCarriedOutError` if the queue cannot be read.
    """
    temporary = path.with_suffix(".csv.new")
    lines = 0
    try:
        with temporary.open("w") as file:
            for line in format_snapshot(queue.job_ids()):
                file.write(line)
                lines += 1
    except loaded_errors() as error:
        raise NotCarriedOutError(f"the final snapshot of the queue failed: {describe_error(error)}") from error
    temporary.replace(path)
    return lines - 1  # without the last one
