"""How old is the oldest transaction? On every server, replicas included: seed 002's first question."""

from __future__ import annotations

from collections.abc import Iterable

from stallbench.collectors.collector import Collector, samples_of
from stallbench.records.samples import Sample

_OLDEST = """
SELECT
  coalesce(extract(epoch FROM clock_timestamp() - least(
    (SELECT min(xact_start) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'),
    (SELECT min(prepared) FROM pg_prepared_xacts)
  )), 0)::float8,
  CASE WHEN pg_is_in_recovery() THEN NULL ELSE txid_snapshot_xmax(txid_current_snapshot()) END
"""


class TransactionsCollector(Collector):
    """Reads the age of the oldest open or prepared transaction, autovacuum's own left out."""

    name = "transactions"

    def sample(self) -> Iterable[Sample]:
        """Return the age, 0 if there is none, and on a primary the next transaction id."""
        samples: list[Sample] = []
        for server, connection in self.watch.connections():
            row = connection.execute(_OLDEST).fetchone()
            assert row is not None
            samples += samples_of(server.name, "server", {"oldest_transaction_s": max(row[0], 0.0), "next_xid": row[1]})
        return samples
