"""A session that listens and whose client no longer reads: the server is stuck in handing over a notification.

What it is stuck in is a transaction of its own, with a snapshot, although the session counts as idle and has no query: it holds the
horizon, and the notification queue is kept from where it has got to. In production the network's buffers fill by and by; here they are
filled at once, by notifications that only this listener gets.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg

from longrunners.longrunner import LongrunnerOptions, LostError
from longrunners.postgres_longrunner import Connection, PostgresLongrunner
from stallbench.processes.reconnection import reconnect
from stallbench.processes.role import CannotGoOnError, Stop

_LOOK_EVERY_S = 0.5
_SETTLED_S = 1.0
"""For so long it must be stuck at every look: one that only waits for buffers to be emptied comes out of it."""
_MOST_BYTES = 256 * 1024 * 1024
"""More than the buffers of both sockets and of a proxy between them take."""
_PAYLOAD_BYTES = 7900
"""A notification takes less than 8000."""
_NOTIFICATIONS_AT_ONCE = 128
_FILL = """
SELECT count(pg_notify(%(channel)s, n || ' ' || repeat('x', %(bytes)s))) FROM generate_series(%(from)s::int, %(to)s::int - 1) AS n
"""
_WAIT_EVENT = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s AND application_name = %s"


class StuckListener(PostgresLongrunner[LongrunnerOptions]):
    """Listens, and reads nothing."""

    kind = "stuck_listener"
    summary = "listens (LISTEN) and does not read what it is sent, until its server process is stuck in ClientWrite"
    source = "users of LISTEN behind poolers, frozen containers and blocked event loops; PostgreSQL's documentation of NOTIFY on its queue"

    _listener: Connection
    _watch: Connection
    _pid: int

    def hold(self, stop: Stop) -> dict[str, Any]:
        """Listen, and send to the own channel until the server is stuck."""
        self._listener = self.connect()
        self._watch = self.connect()
        self._pid = self._listener.info.backend_pid
        self._listener.execute(f"LISTEN {self.object_name}")
        sent = 0
        while not self._is_stuck(stop):
            if stop.asked:
                break
            if sent * _PAYLOAD_BYTES > _MOST_BYTES:
                raise CannotGoOnError(
                    f"session {self._pid} was sent {sent * _PAYLOAD_BYTES // 1024**2} MB of notifications that nobody read, "
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
        """Look whether it is still stuck, on a connection that holds nothing."""
        while not stop.wait(_LOOK_EVERY_S):
            try:
                self._raise_if_free()
            except psycopg.OperationalError:
                self._watch.close()
                self._watch = reconnect(self.connect, stop)

    def let_go(self) -> None:
        """End the stuck session: it would not see that its client has gone before it may write again."""
        with self._watch, self._listener:
            self._raise_if_free()
            self._watch.execute("SELECT pg_terminate_backend(%s, 5000)", (self._pid,))

    def _is_stuck(self, stop: Stop) -> bool:
        until_s = time.monotonic() + _SETTLED_S
        while self._wait_event() == "ClientWrite":
            if time.monotonic() > until_s:
                return True
            stop.wait(0.05)
        return False

    def _wait_event(self) -> str | None:
        """Return what the session waits for; none if it is gone, or waits for nothing."""
        row = self._watch.execute(_WAIT_EVENT, (self._pid, self.application_name)).fetchone()
        return None if row is None else row[0]

    def _raise_if_free(self) -> None:
        row = self._watch.execute(_WAIT_EVENT, (self._pid, self.application_name)).fetchone()
        if row is None:
            raise LostError(f"session {self._pid}, stuck in ClientWrite, was ended: the server no longer has it")
        if row[0] != "ClientWrite":
            raise LostError(f"session {self._pid} is no longer stuck in ClientWrite: it waits for {row[0] or 'nothing'}")
