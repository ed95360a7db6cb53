"""What are the active sessions doing, according to the server: updating, waiting for a lock, committing?"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from stallbench.engines.collectors.collector import ServerCollector
from stallbench.engines.collectors.document import WatchedServer
from stallbench.records.samples import Sample

_STATES = """
SELECT coalesce(nullif(state, ''), 'none'), count(*)
FROM information_schema.processlist
WHERE command IN ('Query', 'Execute') AND user NOT LIKE 'collector:%'
GROUP BY 1
"""


class InnoDBWaitsCollector(ServerCollector):
    """Counts active sessions by their state; the collectors' own are left out, `own_cost` has them."""

    name = "innodb_waits"
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: pymysql.Connection) -> Iterator[Sample]:
        """Yield a count for each state with a session."""
        with connection.cursor() as cursor:
            cursor.execute(_STATES)
            for state, sessions in cursor.fetchall():
                yield Sample(server.name, f"wait:{state}", "backends", sessions)
