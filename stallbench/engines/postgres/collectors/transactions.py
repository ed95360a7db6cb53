"""How old is the oldest transaction, on every server, replicas included? How fast are transaction ids consumed?"""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.connections import APPLICATION_PREFIX
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

# The collectors' own statements end in milliseconds. One that does not would hold the horizon, so it is counted.
# The snapshot's xmax is not the next id yet: ids assigned since are still running.
_OLDEST = f"""
SELECT
  extract(epoch FROM pg_catalog.clock_timestamp() - least(
    (SELECT pg_catalog.min(xact_start) FROM pg_catalog.pg_stat_activity
     WHERE pid <> pg_catalog.pg_backend_pid() AND backend_type <> 'autovacuum worker'
     AND NOT (pg_catalog.starts_with(application_name, '{APPLICATION_PREFIX}') AND xact_start > pg_catalog.clock_timestamp() - interval '1 second')),
    (SELECT pg_catalog.min(prepared) FROM pg_catalog.pg_prepared_xacts)
  ))::double precision,
  CASE WHEN NOT pg_catalog.pg_is_in_recovery()
    THEN pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text::bigint
      + pg_catalog.age(pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.xid) END
"""


class TransactionsCollector(ServerCollector):
    """Reads the age of the oldest open or prepared transaction, autovacuum's own left out."""

    name = "transactions"
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield the age, 0 if there is none, and on a primary the next transaction id, its epoch included."""
        row = connection.execute(_OLDEST).fetchone()
        assert row is not None
        oldest_s, next_xid = row
        yield from samples_of(server.name, "server", {"oldest_transaction_s": max(oldest_s or 0.0, 0.0), "next_xid": next_xid})
