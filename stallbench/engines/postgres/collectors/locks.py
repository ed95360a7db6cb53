"""Which sessions wait for a lock, and which session blocks them? Has the server broken deadlocks, or cancelled a replica's queries?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.engines.collectors.blocked_session import BlockedSession
from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

_COUNTS = """
SELECT deadlocks, xact_rollback, conflicts,
  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> pg_catalog.pg_backend_pid())
FROM pg_catalog.pg_stat_database
WHERE datname = pg_catalog.current_database()
"""
_CONFLICTS = """
SELECT confl_tablespace, confl_lock, confl_snapshot, confl_bufferpin, confl_deadlock
FROM pg_catalog.pg_stat_database_conflicts
WHERE datname = pg_catalog.current_database()
"""
_CONFLICT_KINDS = ("tablespace", "lock", "snapshot", "bufferpin", "deadlock")

# If there are several blockers, one that does not wait itself is named: it is the session to end. A prepared transaction blocks as process 0; it
# is found by its lock on the same object. Its virtual transaction is that of the session that prepared it (of no session after a restart), so its
# lock on its own transaction id tells which one it is.
_BLOCKED = """
SELECT wanted.pid, blocker.pid,
  CASE WHEN blocker.pid = 0
    THEN 'prepared transaction' || coalesce(' ' || (
      SELECT gid FROM pg_catalog.pg_locks AS held
      JOIN pg_catalog.pg_locks AS own ON own.virtualtransaction = held.virtualtransaction AND own.pid IS NULL AND own.locktype = 'transactionid'
      JOIN pg_catalog.pg_prepared_xacts AS prepared ON prepared.transaction = own.transactionid
      WHERE held.pid IS NULL AND held.granted AND held.locktype = wanted.locktype
      AND (held.database, held.relation, held.page, held.tuple, held.transactionid)
        IS NOT DISTINCT FROM (wanted.database, wanted.relation, wanted.page, wanted.tuple, wanted.transactionid)
      LIMIT 1), '')
    ELSE coalesce(blocker.application_name, '') END,
  extract(epoch FROM pg_catalog.clock_timestamp() - wanted.waitstart)::double precision,
  pg_catalog.concat_ws(' ', wanted.mode, 'on', wanted.locktype, pg_class.relname)
FROM pg_catalog.pg_locks AS wanted
LEFT JOIN pg_catalog.pg_class ON pg_class.oid = wanted.relation
CROSS JOIN LATERAL (
  SELECT blocking.pid, activity.application_name
  FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(wanted.pid)) WITH ORDINALITY AS blocking (pid, place)
  LEFT JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid = blocking.pid
  ORDER BY activity.wait_event_type IS NOT DISTINCT FROM 'Lock', place
  LIMIT 1
) AS blocker
WHERE NOT wanted.granted AND wanted.pid <> pg_catalog.pg_backend_pid()
ORDER BY wanted.waitstart
LIMIT 20
"""


def read_blocked(connection: Any) -> list[BlockedSession]:
    """Return the 20 sessions of a PostgreSQL server that have waited longest for a lock. Stops the lock manager for a moment."""
    return [BlockedSession(*row) for row in connection.execute(_BLOCKED).fetchall()]


class LocksCollector(ServerCollector):
    """Reads the counters first; reads who blocks whom only when a session waits, because that query blocks the lock manager for a moment."""

    name = "locks"
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield the counters since the server's start and the number of blocked backends, and a set for each of the first 20 of these.

        On a replica, also the number of queries that replay has cancelled, for each reason that occurred (``conflicts_snapshot``: VACUUM removed
        rows that the query could still see).
        """
        row = connection.execute(_COUNTS).fetchone()
        assert row is not None
        deadlocks, rollbacks, conflicts, blocked = row
        values = {"deadlocks": deadlocks, "blocked_backends": blocked, "rollbacks": rollbacks, "conflicts": conflicts}
        yield from samples_of(server.name, "server", values)
        if conflicts:
            counts = connection.execute(_CONFLICTS).fetchone() or ()
            kinds = zip(_CONFLICT_KINDS, counts, strict=False)
            yield from samples_of(server.name, "server", {f"conflicts_{kind}": count for kind, count in kinds if count})
        if blocked:
            for one in read_blocked(connection):
                values = one._asdict()
                yield from samples_of(server.name, f"blocked:{values.pop('pid')}", values)
