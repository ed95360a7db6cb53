"""How many jobs are ready, and how old is the oldest? As the queue itself reports it.

The count is exact, and reads every waiting job. So that it does not become the load that it measures, a large backlog is counted less often: at most
`_JOBS_A_SECOND` jobs are counted in a second, but a sample is taken every `_LONGEST_S`, and always at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.engines.collectors.watched_queue import QueueOnConnection
from stallbench.records.samples import Sample

_JOBS_A_SECOND = 30_000
_LONGEST_S = 5.0


class BacklogCollector(ServerCollector):
    """Asks the queue under test for its backlog, on the primary."""

    name = "backlog"
    is_of_servers = False

    def __init__(self, document: CollectorsDocument) -> None:
        """Prepare; the queue is opened at the first sample."""
        super().__init__(document)
        self._queue = QueueOnConnection(document.queue)

    def sample_server(self, server: WatchedServer, connection: Any) -> Iterator[Sample]:
        """Yield depth and age of the oldest job; an empty queue's oldest job is 0 s old."""
        backlog = self._queue.on(connection, server.endpoint).backlog()
        self.every_s = min(backlog.depth / _JOBS_A_SECOND, _LONGEST_S)
        yield from samples_of(
            server.name, "queue", {"depth": backlog.depth, "oldest_job_s": max(backlog.oldest_job_s or 0.0, 0.0)}
        )
