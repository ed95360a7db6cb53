"""What are the active backends waiting for: a lock, the disk, the client, or the processor alone?"""

from __future__ import annotations

from collections.abc import Iterable

from stallbench.collectors.collector import Collector
from stallbench.records.samples import Sample

_WAITS = """
SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU'), count(*)
FROM pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()
GROUP BY 1
"""


class WaitsCollector(Collector):
    """Counts active client backends by what they wait for."""

    name = "waits"

    def sample(self) -> Iterable[Sample]:
        """Return a count for each wait event that somebody is in; ``CPU`` stands for none."""
        return [
            Sample(server.name, f"wait:{event}", "backends", count)
            for server, connection in self.watch.connections()
            for event, count in connection.execute(_WAITS).fetchall()
        ]
