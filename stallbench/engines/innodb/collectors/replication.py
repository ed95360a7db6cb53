"""How far behind is each replica, is it replicating at all, and how much redo log does the queue write?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.innodb.driver import read_replica_status
from stallbench.records.samples import Sample


class InnoDBReplicationCollector(ServerCollector):
    """Asks each replica: a primary does not know what its replicas have applied."""

    name = "innodb_replication"
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: pymysql.Connection) -> Iterator[Sample]:
        """Yield, of the primary, the redo log's bytes since its start; of a replica, its state, and what it has received but not applied."""
        with connection.cursor() as cursor:
            if server.role == "primary":
                cursor.execute("SHOW GLOBAL STATUS LIKE 'innodb_os_log_written'")
                row = cursor.fetchone()
                yield from samples_of(server.name, "server", {"wal_bytes": int(row[1]) if row else None})
            else:
                yield from samples_of(server.name, server.name, _describe(read_replica_status(cursor)))


def _describe(status: dict[str, Any]) -> dict[str, float | int | str | None]:
    receives, applies = status.get("replica_io_running"), status.get("replica_sql_running")
    state = "follows" if (receives, applies) == ("Yes", "Yes") else f"receiving: {receives}; applying: {applies}"
    same_file = status.get("source_log_file") == status.get("relay_source_log_file")
    behind = int(status.get("read_source_log_pos") or 0) - int(status.get("exec_source_log_pos") or 0)
    return {
        "state": state,
        "lag_s": status.get("seconds_behind_source"),
        "lag_bytes": max(behind, 0) if same_file else None,
        "error": status.get("last_sql_error") or status.get("last_io_error") or None,
    }
