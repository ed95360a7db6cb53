"""Do dead tuples accumulate, and do tables and indexes grow? From the primary's statistics of the queue's tables."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

_WATCHED = """
SELECT name, coalesce(inhrelid, parent) AS id
FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS name
CROSS JOIN pg_catalog.to_regclass(name) AS parent
LEFT JOIN pg_catalog.pg_inherits ON inhparent = parent
WHERE parent IS NOT NULL
"""
_STATISTICS = f"""
SELECT name,
  pg_catalog.sum(pg_catalog.pg_stat_get_dead_tuples(id))::bigint,
  pg_catalog.sum(pg_catalog.pg_stat_get_live_tuples(id))::bigint, pg_catalog.sum(pg_catalog.pg_stat_get_tuples_inserted(id))::bigint,
  pg_catalog.sum(pg_catalog.pg_stat_get_tuples_updated(id))::bigint,
  pg_catalog.sum(pg_catalog.pg_stat_get_tuples_hot_updated(id))::bigint, pg_catalog.sum(pg_catalog.pg_stat_get_tuples_deleted(id))::bigint,
  pg_catalog.sum(pg_catalog.pg_stat_get_numscans(id))::bigint
FROM ({_WATCHED}) AS watched
GROUP BY name
"""
_SIZES = f"""
WITH watched AS ({_WATCHED})
SELECT 'table:' || name, 'table_bytes', pg_catalog.sum(pg_catalog.pg_relation_size(id))::bigint FROM watched GROUP BY name
UNION ALL
SELECT 'table:' || name, 'toast_bytes', pg_catalog.sum(pg_catalog.pg_relation_size(reltoastrelid))::bigint
FROM watched
JOIN pg_catalog.pg_class ON pg_class.oid = watched.id
WHERE reltoastrelid <> 0
GROUP BY name
UNION ALL
SELECT 'index:' || relname, 'index_bytes', pg_catalog.pg_relation_size(pg_class.oid)
FROM watched
JOIN pg_catalog.pg_index ON indrelid = watched.id
JOIN pg_catalog.pg_class ON pg_class.oid = indexrelid
"""


class TablesCollector(ServerCollector):
    """Reads the statistics of the queue's tables, and the size of these and of every index on them; of a partitioned table, of its partitions.

    Row operations reach the statistics up to a second after the transaction that made them.
    """

    name = "tables"

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield tuples and row operations of each table, then the sizes, which cannot be read while a table is locked exclusively."""
        tables = list(self.document.queue.tables)
        for name, dead, live, inserts, updates, hot_updates, deletes, scans in connection.execute(
            _STATISTICS, (tables,)
        ).fetchall():
            values = {
                "dead_tuples": dead,
                "live_tuples": live,
                "inserts": inserts,
                "updates": updates,
                "hot_updates": hot_updates,
                "deletes": deletes,
                "sequential_scans": scans,
            }
            yield from samples_of(server.name, f"table:{name}", values)
        for subject, metric, size_bytes in connection.execute(_SIZES, (tables,)).fetchall():
            yield from samples_of(server.name, subject, {metric: size_bytes})
