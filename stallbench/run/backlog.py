"""Looks again and again at what a queue still holds, also while its server goes away and comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from stallbench.engines import loaded_errors
from stallbench.queues import Queue

WAITS_AT_MOST_S = 1.0
"""A ready job that has waited for less is being fetched; one that has waited longer is a backlog."""
CAUGHT_UP_FOR_S = 5.0
"""How long there must be no backlog: a single look may fall between two bursts, or on a moment in which nothing could be enqueued."""

_T = TypeVar("_T")


class BacklogPoll:
    """One connection, opened again when it breaks. Use it as a context manager."""

    def __init__(
        self, opened_queue: Callable[[], AbstractContextManager[Queue[Any]]], *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare; nothing is opened. ``opened_queue`` opens the queue on the primary, whichever server that is by then."""
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
        """Whether the queue holds no job; a queue that cannot be asked is not known to be empty."""
        return self._ask(lambda queue: queue.is_drained()) or False

    def is_caught_up(self) -> bool:
        """Whether no ready job has waited for `WAITS_AT_MOST_S`, at every look of the last `CAUGHT_UP_FOR_S`.

        A queue that cannot be asked is not known to be.
        """
        backlog = self._ask(lambda queue: queue.backlog())
        now_s = self._now_s()
        if backlog is None or (backlog.oldest_job_s or 0.0) >= WAITS_AT_MOST_S:
            self._caught_up_since_s = None
            return False
        if self._caught_up_since_s is None:
            self._caught_up_since_s = now_s
        return now_s - self._caught_up_since_s >= CAUGHT_UP_FOR_S

    def _ask(self, question: Callable[[Queue[Any]], _T]) -> _T | None:
        try:
            if self._queue is None:
                self._queue = self._stack.enter_context(self._opened_queue())
            return question(self._queue)
        except loaded_errors():
            self._queue = None
            self._stack.close()
            return None


def take_final_snapshot(queue: Queue[Any], path: Path) -> int:
    """Write every job of the queue to ``path``, as docs/run-folder.md has it, and return how many there are.

    The file gets its name only when it is whole: half a final snapshot would turn queued jobs into lost ones.
    """
    fresh = path.with_suffix(".csv.new")
    count = 0
    with fresh.open("w") as file:
        for job_id, claimed in queue.job_ids():
            file.write(f"{job_id},{'claimed' if claimed else 'queued'}\n")
            count += 1
        file.write(f"end,{count}\n")
    fresh.replace(path)
    return count
