"""How much WAL does the primary keep, and how much of it only because a replication slot still needs it?"""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

_KEPT = "SELECT coalesce(pg_catalog.sum(size), 0)::bigint FROM pg_catalog.pg_ls_waldir()"
# An invalidated slot has no restart_lsn: it keeps nothing.
_SLOTS = """
SELECT slot_name, active, wal_status, coalesce(pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn), 0)::bigint
FROM pg_catalog.pg_replication_slots
"""


class SlotsCollector(ServerCollector):
    """Reads the size of the primary's folder ``pg_wal``, and each slot."""

    name = "slots"

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield the size of all WAL files, and of each slot its state and the WAL since the position that it needs."""
        (kept_bytes,) = connection.execute(_KEPT).fetchone() or (None,)
        yield from samples_of(server.name, "server", {"wal_kept_bytes": kept_bytes})
        for name, active, status, needed_bytes in connection.execute(_SLOTS).fetchall():
            values = {"active": int(active), "wal_status": status, "slot_wal_bytes": needed_bytes}
            yield from samples_of(server.name, f"slot:{name}", values)
