"""The queue under test, for collectors that ask it."""

from __future__ import annotations

from typing import Any

from stallbench.engines import driver_of
from stallbench.engines.collectors.document import WatchedQueue
from stallbench.queues import Queue, find_queue
from stallbench.records.endpoint import Endpoint


class QueueOnConnection:
    """Opens the queue once for each new connection of a collector."""

    def __init__(self, watched: WatchedQueue) -> None:
        """Remember which queue it is; it is opened at first use."""
        self._watched = watched
        self._queue: Queue[Any] | None = None
        self._second: Any = None

    def on(self, connection: Any, endpoint: Endpoint) -> Queue[Any]:
        """Return the queue on ``connection``, which is to ``endpoint``; the second server's connection, if it has one, is opened once."""
        if self._queue is None or self._queue.connection is not connection:
            queue_type = find_queue(self._watched.kind)
            self._queue = queue_type(connection, queue_type.options_type.model_validate(self._watched.options))
            self._queue.introduce(endpoint, "collector")
            if queue_type.second_engine is not None and endpoint.second is not None:
                self._second = self._second or driver_of(queue_type.second_engine).connect_for_sampling(
                    endpoint.second, "collector"
                )
                self._queue.attach(self._second)
        return self._queue
