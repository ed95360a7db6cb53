"""Do the queue's tables and indexes grow?"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.innodb.driver import FRESH_STATISTICS, set_if_known
from stallbench.records.samples import Sample

_TABLES = """
SELECT table_name, table_rows, data_length
FROM information_schema.tables
WHERE table_schema = database() AND table_name IN %s
"""
_INDEXES = """
SELECT index_name, stat_value * @@innodb_page_size
FROM mysql.innodb_index_stats
WHERE database_name = database() AND stat_name = 'size' AND index_name <> 'PRIMARY' AND table_name IN %s
"""


class InnoDBTablesCollector(ServerCollector):
    """Reads InnoDB's own statistics: rows are an estimate, and sizes are renewed when a tenth of a table has changed."""

    name = "innodb_tables"

    def sample_server(self, server: WatchedServer, connection: pymysql.Connection) -> Iterator[Sample]:
        """Yield the rows and the size of each table, then the size of each secondary index."""
        tables = self.document.queue.tables
        with connection.cursor() as cursor:
            set_if_known(cursor.execute, FRESH_STATISTICS)
            cursor.execute(_TABLES, (tables,))
            for name, rows, size_bytes in cursor.fetchall():
                yield from samples_of(server.name, f"table:{name}", {"live_tuples": rows, "table_bytes": size_bytes})
            cursor.execute(_INDEXES, (tables,))
            for name, size_bytes in cursor.fetchall():
                yield from samples_of(server.name, f"index:{name}", {"index_bytes": int(size_bytes)})
