"""How many connections are there, in which state, and how many does the server allow?"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from stallbench.engines.collectors.collector import ServerCollector
from stallbench.engines.collectors.document import WatchedServer
from stallbench.records.samples import Sample

_SESSIONS = """
SELECT lower(command), count(*)
FROM information_schema.processlist
WHERE user NOT LIKE 'collector:%' AND user NOT IN ('system user', 'event_scheduler')
GROUP BY 1
"""


class InnoDBSessionsCollector(ServerCollector):
    """Counts sessions by their command, where ``sleep`` is idle; the collectors' own and the server's are left out."""

    name = "innodb_sessions"
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: pymysql.Connection) -> Iterator[Sample]:
        """Yield a count for each command with a session, and ``max_connections``."""
        with connection.cursor() as cursor:
            cursor.execute(_SESSIONS)
            for command, sessions in cursor.fetchall():
                yield Sample(server.name, f"session:{command}", "sessions", sessions)
            cursor.execute("SELECT @@max_connections")
            (limit,) = cursor.fetchone() or (0,)
        yield Sample(server.name, "server", "max_connections", int(limit))
