"""Does the notification queue grow, does a client not read its notifications, and do commits with a NOTIFY wait for each other?

A listener that does not read is easily missed: its session is idle and has no query, but it is in a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

# The maximum number of pages of the queue; before PostgreSQL 17, which made it a setting, 8 GB in pages of 8 kB.
# A transaction with a NOTIFY takes this lock while it commits, so a session that waits for it waits for another commit. The query runs only
# if a session waits for such a lock, because it stops the lock manager for a moment.
_QUEUE = """
SELECT pg_catalog.pg_notification_queue_usage(),
  coalesce(pg_catalog.current_setting('max_notify_queue_pages', true)::bigint, 1048576) * pg_catalog.current_setting('block_size')::bigint,
  CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'object')
    THEN (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks
      WHERE locktype = 'object' AND classid = 'pg_database'::pg_catalog.regclass AND objid = 0 AND NOT granted)
    ELSE 0 END
"""
_IN_CLIENT_WRITE = """
SELECT pid::pg_catalog.text || ':' || extract(epoch FROM backend_start)::bigint, pid, application_name, state, pg_catalog.age(backend_xmin)
FROM pg_catalog.pg_stat_activity
WHERE wait_event = 'ClientWrite' AND backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid()
"""
_MOMENT_S = 1.0
"""Who has been in ClientWrite for less is handing over a result."""


class StuckClient(NamedTuple):
    """A session that waits for its client to read."""

    key: str
    pid: int
    application: str
    state: str | None
    age_xids: int | None
    """None if it has no snapshot."""
    stuck_s: float


class StuckClients:
    """Finds the sessions that every reading of the last second found in ClientWrite."""

    def __init__(self) -> None:
        """Start with no stuck session."""
        self._first_seen_s: dict[str, float] = {}

    def read(self, connection: Any) -> list[StuckClient]:
        """Read the sessions in ClientWrite, and return those that have been there for a second or more."""
        found = connection.execute(_IN_CLIENT_WRITE).fetchall()
        now_s = time.monotonic()
        self._first_seen_s = {key: self._first_seen_s.get(key, now_s) for key, *_ in found}
        stuck = [
            StuckClient(key, pid, application, state, age_xids, now_s - self._first_seen_s[key])
            for key, pid, application, state, age_xids in found
        ]
        return [one for one in stuck if one.stuck_s >= _MOMENT_S]


class NotificationQueue(NamedTuple):
    """The queue of LISTEN and NOTIFY."""

    share: float
    """0 to 1, of its limit."""
    limit_bytes: int
    lock_waits: int
    """Commits with a NOTIFY that wait for another one."""


def read_notification_queue(connection: Any) -> NotificationQueue:
    """Read how full the notification queue of a PostgreSQL server is."""
    return NotificationQueue(*connection.execute(_QUEUE).fetchone())


class NotificationsCollector(ServerCollector):
    """Reads how full the primary's notification queue is, which sessions wait to commit a NOTIFY, and which are stuck in ClientWrite."""

    name = "notifications"

    def __init__(self, document: CollectorsDocument) -> None:
        """Start with no stuck session."""
        super().__init__(document)
        self._stuck = StuckClients()

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield the queue's usage, then a set for each session that every sample of the last second found in ClientWrite."""
        queue = read_notification_queue(connection)
        stuck = self._stuck.read(connection)
        values = {
            "notification_queue_percent": 100 * queue.share,
            "notification_queue_bytes": round(queue.share * queue.limit_bytes),
            "notify_lock_waits": queue.lock_waits,
            "stuck_clients": len(stuck),
        }
        yield from samples_of(server.name, "server", values)
        for one in stuck:
            of_one: dict[str, float | int | str | None] = {
                "pid": one.pid,
                "application": one.application,
                "state": one.state,
                "stuck_s": one.stuck_s,
                "age_xids": one.age_xids,
            }
            yield from samples_of(server.name, f"client_write:{one.key}", of_one)
