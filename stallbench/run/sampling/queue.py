"""What the queue under test says of itself: how many jobs are ready, how old the oldest is, and by which plan the server carries out a claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.engines import driver_of
from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.queues import Queue, find_queue
from stallbench.records.endpoint import Endpoint
from stallbench.records.samples import Sample

_JOBS_A_SECOND = 30_000
_LONGEST_S = 5.0


class QueueCollector(ServerCollector):
    """Opens the queue once for each new connection."""

    is_of_servers = False

    def __init__(self, document: CollectorsDocument) -> None:
        """Prepare; the queue is opened at the first sample."""
        super().__init__(document)
        self._queue: Queue[Any] | None = None
        self._second: Any = None

    def open_queue(self, connection: Any, endpoint: Endpoint) -> Queue[Any]:
        """Return the queue on ``connection``, which is to ``endpoint``; the second server's connection, if it has one, is opened once."""
        if self._queue is None or self._queue.connection is not connection:
            watched = self.document.queue
            queue_type = find_queue(watched.kind)
            self._queue = queue_type(connection, queue_type.options_type.model_validate(watched.options))
            self._queue.introduce(endpoint, "collector")
            if queue_type.second_engine is not None and endpoint.second is not None:
                self._second = self._second or driver_of(queue_type.second_engine).connect_for_sampling(
                    endpoint.second, "collector"
                )
                self._queue.attach(self._second)
        return self._queue


class BacklogCollector(QueueCollector):
    """How many jobs are ready, and how old is the oldest? As the queue itself reports it, on the primary.

    The count is exact, and reads every waiting job. So that it does not become the load that it measures, a large backlog is counted less often: at
    most `_JOBS_A_SECOND` jobs are counted in a second, but a sample is taken every `_LONGEST_S`, and always at the end.
    """

    name = "backlog"

    def sample_server(self, server: WatchedServer, connection: Any) -> Iterator[Sample]:
        """Yield depth and age of the oldest job; an empty queue's oldest job is 0 s old."""
        backlog = self.open_queue(connection, server.endpoint).backlog()
        self.every_s = min(backlog.depth / _JOBS_A_SECOND, _LONGEST_S)
        yield from samples_of(
            server.name, "queue", {"depth": backlog.depth, "oldest_job_s": max(backlog.oldest_job_s or 0.0, 0.0)}
        )


class PlanCollector(QueueCollector):
    """Which index does a claim use? The optimizer may change its plan while a table fills and empties."""

    name = "plan"
    shortest_interval_s = 5.0

    def sample_server(self, server: WatchedServer, connection: Any) -> Iterator[Sample]:
        """Yield the plan in one line; nothing for a queue without a plan."""
        yield from samples_of(server.name, "claim", {"plan": self.open_queue(connection, server.endpoint).explain()})
