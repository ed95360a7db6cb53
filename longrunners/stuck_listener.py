"""A session that listens and whose client no longer reads: the server is stuck while it sends a notification.

The session is stuck in an internal transaction with a snapshot, although it counts as idle and has no query. It holds the horizon, and the
server cannot empty the notification queue beyond its position. In production the network's buffers fill gradually; here they are filled at
once, by notifications that only this listener receives.
"""

from __future__ import annotations

import psycopg

from longrunners.longrunner import LongrunnerOptions, LostError
from longrunners.postgres_longrunner import Connection, PostgresLongrunner
from stallbench.engines.reconnection import reconnect
from stallbench.processes.role import CannotContinueError, Stop
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_POLL_S = 0.5
_SETTLED_POLL_S = 0.05
_SETTLED_S = 1.0
"""How long it must be stuck without interruption: a session that only waits for buffers to be emptied continues earlier."""
_MOST_BYTES = 256 * 1024 * 1024
"""More than the buffers of both sockets and of a proxy between them can hold."""
_PAYLOAD_BYTES = 7900
"""The limit for a notification is 8000."""
_NOTIFICATIONS_AT_ONCE = 128
_FILL = """
SELECT pg_catalog.count(pg_catalog.pg_notify(%(channel)s, n || ' ' || pg_catalog.repeat('x', %(bytes)s)))
FROM pg_catalog.generate_series(%(from)s::int, %(to)s::int - 1) AS n
"""
_WAIT_EVENT = "SELECT wait_event FROM pg_catalog.pg_stat_activity WHERE pid = %s AND application_name = %s"


class StuckListener(PostgresLongrunner[LongrunnerOptions]):
    """Listens and does not read."""

    kind = "stuck_listener"
    summary = "listens (LISTEN) and does not read the notifications, until its server process is stuck in ClientWrite"
    source = "users of LISTEN behind poolers, frozen containers and blocked event loops; PostgreSQL's documentation of NOTIFY on its queue"

    _listener: Connection
    _watch: Connection
    _pid: int

    def hold(self, stop: Stop) -> Evidence:
        """Listen, and send notifications to its own channel until the server is stuck."""
        self._listener = self.connect()
        self._watch = self.connect()
        self._pid = self._listener.info.backend_pid
        self._listener.execute(f"LISTEN {self.object_name}")
        sent = 0
        while not self._is_stuck(stop):
            if stop.asked:
                break
            if sent * _PAYLOAD_BYTES > _MOST_BYTES:
                raise CannotContinueError(
                    f"session {self._pid} was sent {sent * _PAYLOAD_BYTES // 1024**2} MB of notifications that it did not read, "
                    "and is still not stuck in ClientWrite"
                )
            bounds = {"from": sent, "to": sent + _NOTIFICATIONS_AT_ONCE}
            self._watch.execute(_FILL, {"channel": self.object_name, "bytes": _PAYLOAD_BYTES, **bounds})
            sent += _NOTIFICATIONS_AT_ONCE
        return {
            "kind": "backend",
            "pid": self._pid,
            "application": self.application_name,
            "wait_event": self._wait_event(),
            "unread_mb": round(sent * _PAYLOAD_BYTES / 1024**2, 1),
        }

    def keep(self, stop: Stop) -> None:
        """Check that it is still stuck, on a connection that holds nothing."""
        while not stop.wait(_POLL_S):
            try:
                self._raise_if_free()
            except psycopg.OperationalError:
                self._watch.close()
                self._watch = reconnect(self.connect, stop)

    def release(self) -> None:
        """End the stuck session: it would not notice that its client has disconnected until it can write again."""
        with self._watch, self._listener:
            self._raise_if_free()
            self._watch.execute("SELECT pg_catalog.pg_terminate_backend(%s, 5000)", (self._pid,))

    def _is_stuck(self, stop: Stop) -> bool:
        """Whether it stays stuck for `_SETTLED_S`."""
        has_moved = wait_until(
            lambda: self._wait_event() != "ClientWrite" or stop.asked, within_s=_SETTLED_S, every_s=_SETTLED_POLL_S
        )
        return not has_moved

    def _wait_event(self) -> str | None:
        """Return what the session waits for; none if it has ended or waits for nothing."""
        row = self._watch.execute(_WAIT_EVENT, (self._pid, self.application_name)).fetchone()
        return None if row is None else row[0]

    def _raise_if_free(self) -> None:
        row = self._watch.execute(_WAIT_EVENT, (self._pid, self.application_name)).fetchone()
        if row is None:
            raise LostError(f"session {self._pid}, stuck in ClientWrite, was ended: the server no longer has it")
        if row[0] != "ClientWrite":
            raise LostError(f"session {self._pid} is no longer stuck in ClientWrite: it waits for {row[0] or 'nothing'}")
