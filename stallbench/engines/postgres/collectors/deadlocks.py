"""Who waited for whom in each deadlock, and who was rolled back? PostgreSQL writes this to its log only.

The number of deadlocks comes from the server's counter, which also exists where the log cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import LiteralString

from stallbench.engines import driver_of
from stallbench.engines.collectors.collector import Collector, samples_of
from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.collectors.document import CollectorsDocument
from stallbench.engines.deadlocks.deadlock import Deadlock
from stallbench.engines.postgres.deadlock_log import DeadlockLog, find_unnamed_relations, name_parts
from stallbench.engines.postgres.literals import LITERALS
from stallbench.engines.postgres.server_log import ServerLog
from stallbench.records.samples import Sample

_RELATIONS: LiteralString = """
SELECT 'relation ' || pg_class.oid || ' of database ' || CASE WHEN relisshared THEN 0 ELSE pg_database.oid END, relname
FROM pg_catalog.pg_class
JOIN pg_catalog.pg_database ON datname = pg_catalog.current_database()
WHERE pg_class.oid = ANY(%s::pg_catalog.oid[])
"""
_APPLICATIONS: LiteralString = "SELECT pid, application_name FROM pg_catalog.pg_stat_activity WHERE pid = ANY(%s)"
_CUT_OFF: LiteralString = "SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'track_activity_query_size'"


class DeadlocksCollector(Collector):
    """Reads the primary's log where this machine has it, and records each report of a deadlock that is new in it.

    The server is only asked after a deadlock, for the names that the report does not have.
    """

    name = "deadlocks"

    def __init__(self, document: CollectorsDocument) -> None:
        """Read the log from the start of the run; collectors that were started again find the same deadlocks once more."""
        super().__init__(document)
        self._server = document.primary
        self._log = ServerLog(self._server.log, self._server.log_bytes_before) if self._server.log else None
        self._deadlocks = DeadlockLog()
        self._read = 0

    def sample(self) -> Iterator[Sample]:
        """Yield whether the log is read, and the new deadlocks, as `stallbench.engines.deadlocks.deadlock.Deadlock.from_sample_value` reads them back.

        If the server does not answer, they have no names, and `NotMeasuredError` is raised after them.
        """
        yield Sample(self._server.name, "server", "deadlock_log_read", int(self._log is not None))
        if self._log is None:
            return
        found = list(self._deadlocks.read(list(self._log.read_lines())))
        if not found:
            return
        failure = ""
        try:
            found = self._name_parts(found)
        except NotMeasuredError as error:
            failure = str(error)
        except driver_of(self._server.endpoint.engine).errors as error:
            failure = f"{self._server.name}: {driver_of(self._server.endpoint.engine).describe(error)}"
        for deadlock in found:
            self._read += 1
            recorded = deadlock.without_values(LITERALS) if self.document.hides_values else deadlock
            yield from samples_of(self._server.name, f"deadlock:{self._read}", {"listing": recorded.to_sample_value()})
        if failure:
            raise NotMeasuredError(f"deadlocks without the names of tables and sessions: {failure}")

    def _name_parts(self, deadlocks: Sequence[Deadlock]) -> list[Deadlock]:
        connection = self.connections.to(self._server)
        numbers = set[int]().union(*(find_unnamed_relations(deadlock) for deadlock in deadlocks))
        sessions = {one.thread_id for deadlock in deadlocks for one in deadlock.transactions}
        relations = dict(connection.execute(_RELATIONS, (list(numbers),)).fetchall()) if numbers else {}
        applications = dict(connection.execute(_APPLICATIONS, (list(sessions),)).fetchall())
        ((cut_off_bytes,),) = connection.execute(_CUT_OFF).fetchall()
        return [
            name_parts(deadlock, relations=relations, applications=applications, cut_off_bytes=cut_off_bytes)
            for deadlock in deadlocks
        ]
