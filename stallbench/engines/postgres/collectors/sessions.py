"""How many connections are there, what state are they in, and how many does the server allow?"""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.engines.collectors.collector import ServerCollector
from stallbench.engines.collectors.connections import list_own_backends
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

_SESSIONS = """
SELECT NULL, pg_catalog.current_setting('max_connections')::bigint
UNION ALL
SELECT coalesce(state, 'starting'), pg_catalog.count(*)
FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> ALL(%s)
GROUP BY 1
"""


class SessionsCollector(ServerCollector):
    """Counts client backends by their state; the collectors' own are left out."""

    name = "sessions"
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield a count for each state with a session, and ``max_connections``."""
        counts: dict[str | None, int] = dict(connection.execute(_SESSIONS, (list_own_backends(server.name),)).fetchall())
        limit = counts.pop(None)
        for state, sessions in counts.items():
            yield Sample(server.name, f"session:{state}", "sessions", sessions)
        yield Sample(server.name, "server", "max_connections", limit)
