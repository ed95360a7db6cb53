"""Which index does a claim use? The optimizer may change its plan while a table fills and empties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.engines.collectors.watched_queue import QueueOnConnection
from stallbench.records.samples import Sample


class PlanCollector(ServerCollector):
    """Asks the server to explain the claim, every few seconds."""

    name = "plan"
    is_of_servers = False
    shortest_interval_s = 5.0

    def __init__(self, document: CollectorsDocument) -> None:
        """Prepare; the queue is opened at the first sample."""
        super().__init__(document)
        self._queue = QueueOnConnection(document.queue)

    def sample_server(self, server: WatchedServer, connection: Any) -> Iterator[Sample]:
        """Yield the plan in one line; nothing for a queue without a plan."""
        yield from samples_of(server.name, "claim", {"plan": self._queue.on(connection, server.endpoint).explain()})
