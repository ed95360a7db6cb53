"""How much work is left for purge? Old row versions that a read view still needs, or that purge has not reached yet."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.innodb.views import IMITATED, read_views
from stallbench.records.samples import Sample

_STATUS = "SHOW GLOBAL STATUS LIKE 'Innodb\\_history\\_list\\_length'"
_METRIC = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'"


class InnoDBPurgeCollector(ServerCollector):
    """Reads the history list's length and how far purge is behind, on every server: each purges for itself."""

    name = "innodb_purge"
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: pymysql.Connection) -> Iterator[Sample]:
        """Yield both; a replica's length has a name of its own, so that it is not taken for the primary's."""
        length = "history_list_length" if server.role == "primary" else "replica_history_list_length"
        views = read_views(connection)
        yield from samples_of(
            server.name,
            "server",
            {length: read_history_list_length(connection), "unpurged_transactions": views.unpurged_transactions},
        )
        if views.is_imitated:
            raise NotMeasuredError(f"{server.name}: unpurged transactions: {IMITATED}")


def read_history_list_length(connection: pymysql.Connection) -> int | None:
    """Return how many transactions' old versions wait for purge; MariaDB has it as a status, MySQL as a metric."""
    with connection.cursor() as cursor:
        cursor.execute(_STATUS)
        row = cursor.fetchone()
        if row is not None:
            return int(row[1])
        cursor.execute(_METRIC)
        row = cursor.fetchone()
    return None if row is None else int(row[0])
