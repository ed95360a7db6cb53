"""The queue under test, for collectors that ask it."""

from __future__ import annotations

from typing import Any

from stallbench.collectors.document import WatchedQueue
from stallbench.queues import Queue, find_queue


class QueueOnConnection:
    """Makes the queue once for each connection that a collector has, one after the other."""

    def __init__(self, watched: WatchedQueue) -> None:
        """Remember which queue it is; it is made when it is first needed."""
        self._watched = watched
        self._queue: Queue[Any] | None = None

    def on(self, connection: Any) -> Queue[Any]:
        """Return the queue on ``connection``."""
        if self._queue is None or self._queue.connection is not connection:
            queue_type = find_queue(self._watched.kind)
            self._queue = queue_type(connection, queue_type.options_type.model_validate(self._watched.options))
        return self._queue
