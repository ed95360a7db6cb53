"""Do dead tuples pile up, and do table and index grow? The queue's tables as the primary's statistics have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stallbench.collectors.collector import Collector, samples_of
from stallbench.records.samples import Sample

_TABLES = """
SELECT relname, n_dead_tup, n_live_tup, pg_relation_size(relid), n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del
FROM pg_stat_user_tables
WHERE relname = ANY(%s)
"""
_INDEXES = """
SELECT indexrelname, pg_relation_size(indexrelid)
FROM pg_stat_user_indexes
WHERE relname = ANY(%s)
"""


class TablesCollector(Collector):
    """Reads the statistics of the queue's tables and of every index on them.

    They reach the statistics up to a second after the transaction that made them.
    """

    name = "tables"

    def sample(self) -> Iterable[Sample]:
        """Return tuples, sizes and row operations of each table, and the size of each index."""
        primary = self.watch.primary
        connection = self.watch.connection(primary)
        tables = list(self.watch.document.queue.tables)
        samples: list[Sample] = []
        for name, dead, live, size, inserts, updates, hot_updates, deletes in connection.execute(_TABLES, (tables,)):
            values = {
                "dead_tuples": dead,
                "live_tuples": live,
                "table_bytes": size,
                "inserts": inserts,
                "updates": updates,
                "hot_updates": hot_updates,
                "deletes": deletes,
            }
            samples += samples_of(primary.name, f"table:{name}", values)
        samples += self._index_sizes(connection.execute(_INDEXES, (tables,)).fetchall())
        return samples

    def _index_sizes(self, rows: list[tuple[str, int]]) -> Iterator[Sample]:
        for name, size in rows:
            yield Sample(self.watch.primary.name, f"index:{name}", "index_bytes", size)
