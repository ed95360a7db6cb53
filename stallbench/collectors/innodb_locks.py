"""Which sessions wait for row locks, which session blocks them, and for how long in total? How many deadlocks were broken?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql

from stallbench.collectors.collector import INNODB, ServerCollector, samples_of
from stallbench.collectors.document import WatchedServer
from stallbench.collectors.locks import BlockedSession
from stallbench.records.samples import Sample

_COUNTERS = {
    "innodb_deadlocks": "deadlocks",
    "innodb_row_lock_current_waits": "blocked_backends",
    "innodb_row_lock_time": "row_lock_wait_ms",
    "innodb_row_lock_waits": "row_lock_waits",
    "com_rollback": "rollbacks",
}
"""By the server's status variable: the metric. MySQL has no ``innodb_deadlocks``; its own counter is asked there."""
_STATUS = f"SHOW GLOBAL STATUS WHERE variable_name IN ({', '.join(repr(name) for name in _COUNTERS)})"
_DEADLOCK_STATUS = "SHOW GLOBAL STATUS LIKE 'Innodb\\_deadlocks'"
_DEADLOCKS = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"
# Both products have this view of the sys schema, each over its own tables.
_BLOCKED = """
SELECT waits.waiting_pid, waits.blocking_pid, coalesce(session.user, ''), waits.wait_age_secs,
  concat_ws(' ', waits.waiting_lock_mode, 'on', waits.locked_table, waits.locked_index)
FROM sys.x$innodb_lock_waits AS waits
LEFT JOIN information_schema.processlist AS session ON session.id = waits.blocking_pid
ORDER BY waits.wait_age_secs DESC
LIMIT 20
"""


def read_blocked(connection: Any) -> list[BlockedSession]:
    """Return the 20 sessions that have waited longest for a row lock, with the user of each blocker."""
    with connection.cursor() as cursor:
        cursor.execute(_BLOCKED)
        return [
            BlockedSession(int(pid), int(blocker_pid), str(user), None if blocked_s is None else float(blocked_s), _plain(lock))
            for pid, blocker_pid, user, blocked_s, lock in cursor.fetchall()
        ]


def read_deadlock_count(connection: Any) -> int | None:
    """Return how many deadlocks the server has broken since its start; none if it does not count them."""
    with connection.cursor() as cursor:
        cursor.execute(_DEADLOCK_STATUS)
        row = cursor.fetchone()
        if row is not None:
            return int(row[1])
        cursor.execute(_DEADLOCKS)
        row = cursor.fetchone()
    return None if row is None else int(row[0])


class InnoDBLocksCollector(ServerCollector):
    """Reads the counters first; reads who blocks whom only when a session waits."""

    name = "innodb_locks"
    engines = INNODB
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: pymysql.Connection) -> Iterator[Sample]:
        """Yield the counters since the server's start, the number of waiting sessions, and a set for each of the first 20 of these.

        A counter that the user may not read is left out, with the reason in the collectors' log; those that need no privilege are read
        first.
        """
        with connection.cursor() as cursor:
            cursor.execute(_STATUS)
            values = {_COUNTERS[name.lower()]: int(value) for name, value in cursor.fetchall()}
            yield from samples_of(server.name, "server", values)
            if "deadlocks" not in values:
                cursor.execute(_DEADLOCKS)
                row = cursor.fetchone()
                yield from samples_of(server.name, "server", {"deadlocks": int(row[0]) if row else None})
            if values.get("blocked_backends"):
                for one in read_blocked(connection):
                    of_one = one._asdict()
                    yield from samples_of(server.name, f"blocked:{of_one.pop('pid')}", of_one)


def _plain(lock: object) -> str:
    text = lock.decode() if isinstance(lock, bytes) else str(lock)
    return text.replace("`", "")
