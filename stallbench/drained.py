"""Looks again and again whether the queue is empty, also while its server goes away and comes back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

from stallbench.drivers import loaded_errors
from stallbench.queues import Queue


class DrainedLook:
    """One connection, opened again when it breaks. Use it as a context manager."""

    def __init__(self, opened_queue: Callable[[], AbstractContextManager[Queue[Any]]]) -> None:
        """Prepare; nothing is opened. ``opened_queue`` opens the queue on the primary, whichever server that is by then."""
        self._opened_queue = opened_queue
        self._stack = ExitStack()
        self._queue: Queue[Any] | None = None

    def __enter__(self) -> Self:
        self._queue = self._stack.enter_context(self._opened_queue())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def is_drained(self) -> bool:
        """Whether the queue holds no job; a queue that cannot be asked is not known to be empty."""
        try:
            if self._queue is None:
                self._queue = self._stack.enter_context(self._opened_queue())
            return self._queue.is_drained()
        except loaded_errors():
            self._queue = None
            self._stack.close()
            return False
