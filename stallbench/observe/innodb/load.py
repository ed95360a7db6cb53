"""Which load does a queue on MariaDB or MySQL have: jobs enqueued, running jobs, sizes of a sample of jobs?

By default the servers count no inserts into a table, so the number of inserted jobs is the growth of the table's AUTO_INCREMENT. As on PostgreSQL,
no argument leaves the server, only its size, and kinds of jobs are distinguished by a salted hash.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from stallbench.engines import loaded_errors
from stallbench.errors import BadInputError
from stallbench.observe.diagnostic import Reading, Section
from stallbench.observe.innodb.queues import read_tables
from stallbench.observe.known_queue import Recorded
from stallbench.observe.postgres.load import MOST_SAMPLED, OPTION, LoadDiagnostic
from stallbench.observe.postgres.recognition import QueueTable
from stallbench.observe.profile.reading import LoadReading, Sampled

_INSERTED = """
SELECT coalesce(auto_increment, 1), @@auto_increment_increment FROM information_schema.tables
WHERE table_schema = %s AND table_name = %s
"""
"""An empty table may have no next number yet."""
_IS_NUMBERED = """
SELECT count(*) FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s AND extra LIKE '%%auto_increment%%'
"""
_SAMPLE = "SELECT {kind}, {size} FROM {table} AS job WHERE {which} LIMIT {limit}"
_HASH = "cast(conv(left(sha2(concat('{salt}', {column}), 256), 15), 16, 10) AS unsigned)"


class InnoDBLoadDiagnostic(LoadDiagnostic):
    """Keeps a `LoadReading` of each reading of one queue."""

    _is_numbered: bool | None = None
    """Whether the table has an AUTO_INCREMENT; none before the first reading."""

    def find_recorded(self, table: QueueTable) -> Recorded | None:
        """Return what can be seen of its jobs; none if its load cannot be recorded."""
        return table.known.innodb.recorded if table.known and table.known.innodb else None

    def require_queue(self) -> None:
        """Raise `BadInputError` if there is not exactly one queue whose load can be recorded."""
        super().require_queue()
        if self._is_numbered is False:
            raise BadInputError(f"{OPTION}: the queue's table has no AUTO_INCREMENT, by which enqueued jobs are counted")

    def read(self, reading: Reading) -> Section:
        """Add a reading; the section has no title, so the report does not show it."""
        self.is_replica = reading.state.is_replica
        table = self.find_table()
        recorded = self.find_recorded(table) if table else None
        if table is None or recorded is None:
            return Section(title="")
        self.stands_in, self.server = recorded.queue, _describe_server(reading.state.version)
        self.engine = reading.server.endpoint.engine
        at_s = time.monotonic()
        if self._is_numbered is None:
            ((columns,),) = reading.server.fetch(_IS_NUMBERED, (table.plain_schema, table.plain_name))
            self._is_numbered = bool(columns)
        rows = reading.server.fetch(_INSERTED, (table.plain_schema, table.plain_name)) if self._is_numbered else []
        inserted = {number: int(next_id) // int(step) for number, (next_id, step) in enumerate(rows)}
        counts, waiting, running = self.count(table, reading)
        total, by_kind = self._sample_rows(reading, table, recorded)
        self.readings.append(
            LoadReading(
                at_s=at_s,
                inserted=inserted,
                waiting=waiting,
                oldest_s=counts.oldest_s if counts else None,
                running=running,
                sampled=total,
                by_kind=by_kind,
            )
        )
        return Section(title="")

    def _sample_rows(self, reading: Reading, table: QueueTable, recorded: Recorded) -> tuple[Sampled | None, dict[int, Sampled]]:
        """Return the figures of a sample, together and by kind; none if the server refuses."""
        known = table.known.innodb if table.known else None
        assert known is not None, "the load of no other table is recorded"
        conditions = [known.ready.where, *([known.running.where] if known.running and not known.running.table else [])]
        query = _SAMPLE.format(
            kind=_HASH.format(salt=self.salt, column=recorded.kind) if recorded.kind else "NULL",
            size=f"octet_length({recorded.payload})" if recorded.payload else "NULL",
            table=table.name,
            which=" OR ".join(f"({condition})" for condition in conditions),
            limit=MOST_SAMPLED,
        )
        try:
            rows = read_tables(reading.server, query, table)
        except loaded_errors():  # an older or newer version of the library without such a column, or a sample that took too long
            return None, {}
        kinds = {int(kind) for kind, _ in rows if kind is not None}
        by_kind = {kind: found for kind in kinds if (found := _summarize([row for row in rows if row[0] == kind]))}
        return _summarize(rows), by_kind


def _summarize(rows: Sequence[tuple[Any, ...]]) -> Sampled | None:
    if not rows:
        return None
    sizes = sorted(float(size) for _, size in rows if size is not None)
    return Sampled(
        jobs=len(rows),
        payload_bytes=sum(sizes) / len(sizes) if sizes else None,
        payload_p95_bytes=sizes[min(len(sizes) - 1, int(0.95 * len(sizes)))] if sizes else None,
        payload_max_bytes=sizes[-1] if sizes else None,
    )


def _describe_server(version: str) -> str:
    product = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    return f"{product} {'.'.join(version.partition('-')[0].split('.')[:2])}"
