"""Which sessions wait for row locks, which session blocks them, and for how long in total? How many deadlocks were broken?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql

from stallbench.engines.collectors.blocked_session import BlockedSession
from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import WatchedServer
from stallbench.records.samples import Sample

_COUNTERS = {
    "innodb_deadlocks": "deadlocks",
    "innodb_row_lock_current_waits": "blocked_backends",
    "innodb_row_lock_time": "row_lock_wait_ms",
    "innodb_row_lock_waits": "row_lock_waits",
    "com_rollback": "rollbacks",
}
"""By the server's status variable: the metric. MySQL has no ``innodb_deadlocks``; its own counters are asked there."""
_STATUS = f"SHOW GLOBAL STATUS WHERE variable_name IN ({', '.join(repr(name) for name in _COUNTERS)})"
_DEADLOCK_STATUS = "SHOW GLOBAL STATUS LIKE 'Innodb\\_deadlocks'"
_DEADLOCKS = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"
# Before 8.0.18 that counter leaves out a deadlock whose victim is the transaction that completed the cycle of waits.
_DEADLOCK_ERRORS = (
    "SELECT sum_error_raised FROM performance_schema.events_errors_summary_global_by_error WHERE error_number = 1213"
)
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
        return _read_mysql_deadlocks(cursor)


def _read_mysql_deadlocks(cursor: Any) -> int | None:
    """Return the greater of MySQL's two counters, of those that the user may read; none if neither exists.

    Raises `pymysql.Error` if the user may read neither.
    """
    counts, refusals = [], []
    for query in (_DEADLOCKS, _DEADLOCK_ERRORS):
        try:
            cursor.execute(query)
        except pymysql.Error as error:
            refusals.append(error)
        else:
            counts += [int(count) for (count,) in cursor.fetchall()]
    if len(refusals) == 2:
        raise refusals[0]
    return max(counts, default=None)


class InnoDBLocksCollector(ServerCollector):
    """Reads the counters first; reads who blocks whom only when a session waits."""

    name = "innodb_locks"
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
                yield from samples_of(server.name, "server", {"deadlocks": _read_mysql_deadlocks(cursor)})
            if values.get("blocked_backends"):
                for one in read_blocked(connection):
                    of_one = one._asdict()
                    yield from samples_of(server.name, f"blocked:{of_one.pop('pid')}", of_one)


def _plain(lock: object) -> str:
    text = lock.decode() if isinstance(lock, bytes) else str(lock)
    return text.replace("`", "")
