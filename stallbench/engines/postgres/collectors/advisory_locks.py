"""How many advisory locks does one session hold? A queue that claims with them holds a few; a queue that leaks them holds more and more."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

_MOST = """
SELECT coalesce(pg_catalog.max(locks), 0)
FROM (SELECT pg_catalog.count(*) AS locks FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted GROUP BY pid) AS held
"""


class AdvisoryLocksCollector(ServerCollector):
    """Samples only queues that declare advisory locks: reading pg_locks blocks the lock manager for a moment."""

    name = "advisory_locks"
    is_of_servers = False
    roles = ("primary",)

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield the number of the session that holds the most."""
        if self.document.queue.advisory_locks:
            row = connection.execute(_MOST).fetchone()
            assert row is not None
            yield from samples_of(server.name, "server", {"advisory_locks": row[0]})
