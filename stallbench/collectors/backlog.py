"""How much waits in the queue, and for how long the first of it has? By the queue's own words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stallbench.collectors.collector import Collector, Watch, samples_of
from stallbench.queues import Queue, find_queues
from stallbench.records.samples import Sample


class BacklogCollector(Collector):
    """Asks the queue under test for its backlog, on the primary."""

    name = "backlog"

    def __init__(self, watch: Watch) -> None:
        """Make the queue under test when it is first asked."""
        super().__init__(watch)
        self._queue: Queue[Any] | None = None

    def sample(self) -> Iterable[Sample]:
        """Return depth and age of the oldest job; an empty queue's oldest job is 0 s old."""
        connection = self.watch.connection(self.watch.primary)
        if self._queue is None or self._queue.connection is not connection:
            chosen = self.watch.document.queue
            queue_type = find_queues()[chosen.kind]
            self._queue = queue_type(connection, queue_type.options_type.model_validate(chosen.options))
        backlog = self._queue.backlog()
        return samples_of(self.watch.primary.name, "queue", {"depth": backlog.depth, "oldest_job_s": backlog.oldest_job_s or 0.0})
