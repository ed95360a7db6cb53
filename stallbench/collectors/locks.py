"""Does somebody wait for somebody's lock, and who blocks whom? And has the server broken deadlocks or cancelled a
replica's queries?
"""

from __future__ import annotations

from collections.abc import Iterable

from stallbench.collectors.collector import Collector, samples_of
from stallbench.records.samples import Sample

_COUNTS = """
SELECT
  deadlocks, xact_rollback, conflicts,
  (SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid())
FROM pg_stat_database
WHERE datname = current_database()
"""
_BLOCKED = """
SELECT blocked.pid, blocker.pid, blocker.application_name,
  extract(epoch FROM clock_timestamp() - blocked.query_start)::float8, blocked.wait_event
FROM pg_stat_activity AS blocked
CROSS JOIN LATERAL (SELECT pid FROM unnest(pg_blocking_pids(blocked.pid)) AS pid LIMIT 1) AS first
JOIN pg_stat_activity AS blocker ON blocker.pid = first.pid
WHERE blocked.wait_event_type = 'Lock'
LIMIT 20
"""


class LocksCollector(Collector):
    """Counts first; who blocks whom is asked only when somebody waits, for that question takes every lock's lock."""

    name = "locks"

    def sample(self) -> Iterable[Sample]:
        """Return the counters since the server's start and the number of blocked backends, and a set for each of these."""
        samples: list[Sample] = []
        for server, connection in self.watch.connections():
            row = connection.execute(_COUNTS).fetchone()
            assert row is not None
            deadlocks, rollbacks, conflicts, blocked = row
            values = {
                "deadlocks": deadlocks,
                "rollbacks": rollbacks,
                "conflicts": conflicts,
                "blocked_backends": blocked,
            }
            samples += samples_of(server.name, "server", values)
            if blocked:
                for pid, blocker, application, blocked_s, lock in connection.execute(_BLOCKED).fetchall():
                    samples += samples_of(
                        server.name,
                        f"blocked:{pid}",
                        {
                            "blocker_pid": blocker,
                            "blocker_application": application,
                            "blocked_s": blocked_s,
                            "lock": lock,
                        },
                    )
        return samples
