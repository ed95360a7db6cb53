"""How far behind is each replica, and how much WAL does the queue write?"""

from __future__ import annotations

from collections.abc import Iterable

from stallbench.collectors.collector import Collector, samples_of
from stallbench.records.samples import Sample

_WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
_REPLICAS = """
SELECT application_name, state, pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint, extract(epoch FROM replay_lag)::float8
FROM pg_stat_replication
WHERE application_name = ANY(%s)
"""


class ReplicationCollector(Collector):
    """Asks the primary; a replica that does not stream is missing in its answer, and so in the samples."""

    name = "replication"

    def sample(self) -> Iterable[Sample]:
        """Return the WAL position in bytes, and state and lag of each replica."""
        primary = self.watch.primary
        connection = self.watch.connection(primary)
        row = connection.execute(_WAL).fetchone()
        assert row is not None
        samples = [Sample(primary.name, "server", "wal_bytes", row[0])]
        replicas = [server.name for server in self.watch.document.servers if server.role == "replica"]
        for name, state, lag_bytes, lag_s in connection.execute(_REPLICAS, (replicas,)).fetchall():
            samples += samples_of(
                primary.name, name, {"state": state, "lag_bytes": max(lag_bytes or 0, 0), "lag_s": lag_s or 0.0}
            )
        return samples
