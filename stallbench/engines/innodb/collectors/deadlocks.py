"""Who waited for whom in the latest deadlock, and who was rolled back? InnoDB keeps the listing of the latest one only."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.engines.innodb.deadlock_report import parse_deadlock
from stallbench.engines.innodb.literals import LITERALS
from stallbench.records.samples import Sample


class InnoDBDeadlocksCollector(ServerCollector):
    """Reads ``SHOW ENGINE INNODB STATUS``, and records a listing if it differs from the last one.

    The server has one listing for all databases. That of another one is recorded without its values: a run may be on a user's server.

    The number of deadlocks comes from the server's counter and from the recorded errors.
    """

    name = "innodb_deadlocks"

    def __init__(self, document: CollectorsDocument) -> None:
        """Start without a known listing."""
        super().__init__(document)
        self._last = ""
        self._read = 0

    def sample_server(self, server: WatchedServer, connection: pymysql.Connection) -> Iterator[Sample]:
        """Yield a new listing, as `Deadlock.from_sample_value` reads it back; raises 1227 without the PROCESS privilege."""
        with connection.cursor() as cursor:
            cursor.execute("SHOW ENGINE INNODB STATUS")
            row = cursor.fetchone()
        deadlock = parse_deadlock(str(row[2])) if row else None
        if deadlock is None or deadlock.text == self._last:
            return
        self._last = deadlock.text
        self._read += 1
        if self.document.hides_values or not deadlock.is_within(server.endpoint.database):
            deadlock = deadlock.without_values(LITERALS)
        yield from samples_of(server.name, f"deadlock:{self._read}", {"listing": deadlock.to_sample_value()})
