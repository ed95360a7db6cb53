"""What are the active backends waiting for: a lock, the disk, the client, or the processor alone?"""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.engines.collectors.collector import ServerCollector
from stallbench.engines.collectors.connections import list_own_backends
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

_WAITS = """
SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU'), pg_catalog.count(*)
FROM pg_catalog.pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND pid <> ALL(%s)
GROUP BY 1
"""


class WaitsCollector(ServerCollector):
    """Counts active client backends by what they wait for; the collectors' own are left out, `own_cost` has them."""

    name = "waits"
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield a count for each wait event with a backend; ``CPU`` stands for no wait."""
        for event, backends in connection.execute(_WAITS, (list_own_backends(server.name),)).fetchall():
            yield Sample(server.name, f"wait:{event}", "backends", backends)
