"""By which index does a claim find its job? An optimizer may change its mind while a table fills and empties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.collectors.collector import ServerCollector, samples_of
from stallbench.collectors.document import CollectorsDocument, WatchedServer
from stallbench.collectors.watched_queue import QueueOnConnection
from stallbench.records.samples import Sample


class PlanCollector(ServerCollector):
    """Asks the server to explain the claim, now and then."""

    name = "plan"
    shortest_interval_s = 5.0

    def __init__(self, document: CollectorsDocument) -> None:
        """Make the queue under test when it is first asked."""
        super().__init__(document)
        self._queue = QueueOnConnection(document.queue)

    def sample_server(self, server: WatchedServer, connection: Any) -> Iterator[Sample]:
        """Yield the plan in one line; nothing for a queue that cannot say."""
        yield from samples_of(server.name, "claim", {"plan": self._queue.on(connection, server.endpoint).explain()})
