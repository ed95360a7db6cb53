"""Does the notification queue grow, does a client not read its notifications, and do commits with a NOTIFY wait for each other?

A listener that does not read is easily missed: its session is idle and has no query, but it is in a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from stallbench.collectors.collector import POSTGRES, ServerCollector, samples_of
from stallbench.collectors.document import CollectorsDocument, WatchedServer
from stallbench.engines.postgres import Connection
from stallbench.records.samples import Sample

# The maximum number of pages of the queue; before PostgreSQL 17, which made it a setting, 8 GB in pages of 8 kB.
# A transaction with a NOTIFY takes this lock while it commits, so a session that waits for it waits for another commit. The query runs only
# if a session waits for such a lock, because it stops the lock manager for a moment.
_QUEUE = """
SELECT pg_notification_queue_usage(),
  coalesce(current_setting('max_notify_queue_pages', true)::bigint, 1048576) * current_setting('block_size')::bigint,
  CASE WHEN EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'object')
    THEN (SELECT count(*) FROM pg_locks
      WHERE locktype = 'object' AND classid = 'pg_database'::regclass AND objid = 0 AND NOT granted)
    ELSE 0 END
"""
_IN_CLIENT_WRITE = """
SELECT pid::text || ':' || extract(epoch FROM backend_start)::bigint, pid, application_name, state, age(backend_xmin)
FROM pg_stat_activity
WHERE wait_event = 'ClientWrite' AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_MOMENT_S = 1.0
"""Who has been in ClientWrite for less is handing over a result."""


class NotificationsCollector(ServerCollector):
    """Reads how full the primary's notification queue is, which sessions wait to commit a NOTIFY, and which are stuck in ClientWrite."""

    name = "notifications"
    engines = POSTGRES

    def __init__(self, document: CollectorsDocument) -> None:
        """Start with no stuck session."""
        super().__init__(document)
        self._first_seen_s: dict[str, float] = {}

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield the queue's usage, then a set for each session that every sample of the last second found in ClientWrite."""
        row = connection.execute(_QUEUE).fetchone()
        assert row is not None
        share, queue_bytes, waiting = row
        found = connection.execute(_IN_CLIENT_WRITE).fetchall()
        now_s = time.monotonic()
        self._first_seen_s = {key: self._first_seen_s.get(key, now_s) for key, *_ in found}
        stuck = [values for values in found if now_s - self._first_seen_s[values[0]] >= _MOMENT_S]
        values = {
            "notification_queue_percent": 100 * share,
            "notification_queue_bytes": round(share * queue_bytes),
            "notify_lock_waits": waiting,
            "stuck_clients": len(stuck),
        }
        yield from samples_of(server.name, "server", values)
        for key, pid, application, state, xmin_age in stuck:
            values = {
                "pid": pid,
                "application": application,
                "state": state,
                "stuck_s": now_s - self._first_seen_s[key],
                "age_xids": xmin_age,
            }
            yield from samples_of(server.name, f"client_write:{key}", values)
