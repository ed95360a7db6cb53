"""How far behind is each replica, does it stream at all, and how much WAL does the queue write?"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from stallbench.engines.collectors.collector import Collector, samples_of
from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.engines.postgres.driver import DRIVER
from stallbench.records.samples import Sample

ABSENT = "absent"
"""State of a replica to which the primary does not stream."""

_ON_PRIMARY = """
SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), '0/0')::bigint, application_name, state,
  pg_catalog.pg_wal_lsn_diff(replay_lsn, '0/0')::bigint, extract(epoch FROM replay_lag)::double precision
FROM (VALUES (1)) AS always
LEFT JOIN pg_catalog.pg_stat_replication ON application_name = ANY(%s)
"""
_ON_REPLICA = """
SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_replay_lsn(), '0/0')::bigint,
  extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())::double precision
"""


class ReplicationCollector(Collector):
    """Asks the primary. A replica to which it does not stream is asked directly; if it does not answer, its last known position counts.

    So the recorded lag of a disconnected replica keeps growing, as the real lag does.
    """

    name = "replication"

    def __init__(self, document: CollectorsDocument) -> None:
        """Start without a known position of any replica."""
        super().__init__(document)
        self._replayed_bytes: dict[str, int] = {}
        """By replica: the last WAL position that it is known to have replayed."""

    def sample(self) -> Iterator[Sample]:
        """Yield the WAL position in bytes, and state and lag of each replica; the lag in seconds only where a server reports it."""
        primary = self.document.primary
        replicas = {server.name: server for server in self.document.servers if server.role == "replica"}
        rows = self.connections.to(primary).execute(_ON_PRIMARY, (list(replicas),)).fetchall()
        written_bytes = rows[0][0]
        yield Sample(primary.name, "server", "wal_bytes", written_bytes)
        for _, name, state, replayed_bytes, lag_s in rows:
            if name is not None:
                yield from self._describe_lag(primary, name, state, written_bytes, replayed_bytes, lag_s)
        failures = []
        for name in sorted(replicas.keys() - {row[1] for row in rows}):
            replayed_bytes = lag_s = None
            try:
                row = self.connections.to(replicas[name]).execute(_ON_REPLICA).fetchone()
                assert row is not None
                replayed_bytes, lag_s = row
            except NotMeasuredError as error:
                failures.append(str(error))
            except psycopg.Error as error:
                failures.append(f"{name}: {DRIVER.describe(error)}")
            yield from self._describe_lag(primary, name, ABSENT, written_bytes, replayed_bytes, lag_s)
        if failures:
            raise NotMeasuredError("; ".join(failures))

    def _describe_lag(
        self, primary: WatchedServer, name: str, state: str, written_bytes: int, replayed_bytes: int | None, lag_s: float | None
    ) -> Iterator[Sample]:
        if replayed_bytes is None:
            replayed_bytes = self._replayed_bytes.get(name)
        else:
            self._replayed_bytes[name] = replayed_bytes
        lag_bytes = None if replayed_bytes is None else max(written_bytes - replayed_bytes, 0)
        if lag_bytes == 0:
            lag_s = 0.0  # a replica that has everything reports no lag, or that of the last transaction, however long ago
        yield from samples_of(primary.name, name, {"state": state, "lag_bytes": lag_bytes, "lag_s": lag_s})
