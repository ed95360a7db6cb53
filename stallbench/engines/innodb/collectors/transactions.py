"""How old is the oldest transaction, on every server, replicas included?"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import WatchedServer
from stallbench.records.samples import Sample

_OLDEST = """
SELECT count(*), max(timestampdiff(MICROSECOND, trx_started, now(6))) / 1e6
FROM information_schema.innodb_trx
WHERE trx_mysql_thread_id NOT IN (0, connection_id())
"""


class InnoDBTransactionsCollector(ServerCollector):
    """Reads the age of the oldest open transaction of a session; the server gives whole seconds only."""

    name = "innodb_transactions"
    roles = ("primary", "replica")

    def sample_server(self, server: WatchedServer, connection: pymysql.Connection) -> Iterator[Sample]:
        """Yield the age, 0 if there is none, and how many are open."""
        with connection.cursor() as cursor:
            cursor.execute(_OLDEST)
            count, oldest_s = cursor.fetchone() or (0, None)
        values = {"oldest_transaction_s": max(float(oldest_s or 0.0), 0.0), "open_transactions": int(count)}
        yield from samples_of(server.name, "server", values)
