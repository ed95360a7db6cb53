"""Which B-trees hold hardly any entry, and can one be rebuilt without waiting for a transaction?"""

from __future__ import annotations

from collections.abc import Sequence

from stallbench.base.number_text import format_bytes, format_plural
from stallbench.observe.diagnostic import Finding, Reading, Severity
from stallbench.observe.formatting import format_age
from stallbench.observe.postgres.table_sizes import IndexSize, Sizes
from stallbench.observe.thresholds import LONG_TRANSACTION_S

SUBJECT = "indexes"
_MOSTLY_BLOAT = 0.75
"""Share of an index without entries from which on a rebuilt one has a quarter of its pages. The estimate may be wrong by less than that."""
_MOST_NAMED = 3
# It waits for who has locked the table, and for every snapshot of the database that is older than the new index.
_IN_THE_WAY = """
SELECT 'session ' || pid, extract(epoch FROM pg_catalog.clock_timestamp() - xact_start)::double precision
FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() AND (
  backend_xmin IS NOT NULL OR backend_xid IS NOT NULL
  OR pid IN (SELECT pid FROM pg_catalog.pg_locks WHERE locktype = 'relation' AND relation = ANY(%(tables)s::pg_catalog.oid[]))
)
AND xact_start < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => %(long_s)s)
UNION ALL
SELECT 'prepared transaction ' || gid, extract(epoch FROM pg_catalog.clock_timestamp() - prepared)::double precision
FROM pg_catalog.pg_prepared_xacts
WHERE database = pg_catalog.current_database()
ORDER BY 2 DESC
LIMIT 1
"""


def judge_indexes(reading: Reading, tables: Sequence[tuple[int, Sizes]], least_bytes: int) -> list[Finding]:
    """Return a finding for each of the largest B-trees that are mostly empty. ``tables``: by their oid. ``least_bytes``: less bloat is not worth a mention.

    Raises errors of the server's driver.
    """
    bloated = [
        (oid, sizes, index)
        for oid, sizes in tables
        for index in sizes.indexes
        if index.can_be_rebuilt and index.bloat_bytes >= max(least_bytes, _MOSTLY_BLOAT * index.size_bytes)
    ]
    if not bloated or reading.state.is_replica:
        return []
    bloated = sorted(bloated, key=lambda one: -one[2].bloat_bytes)[:_MOST_NAMED]
    values = {"tables": [oid for oid, _, _ in bloated], "long_s": LONG_TRANSACTION_S}
    rows = reading.server.execute(_IN_THE_WAY, values).fetchall()
    in_the_way = f"{rows[0][0]}, whose transaction is {format_age(rows[0][1])} old" if rows else ""
    return [
        _judge(index, sizes, in_the_way, is_queue=oid in reading.state.queue_oids, sees_all=reading.state.sees_all)
        for oid, sizes, index in bloated
    ]


def _judge(index: IndexSize, sizes: Sizes, in_the_way: str, *, is_queue: bool, sees_all: bool) -> Finding:
    share = 100 * index.bloat_bytes / index.size_bytes
    waits = f" To rebuild it now would wait for {in_the_way}: end that first." if in_the_way else ""
    needed = format_bytes(index.size_bytes - index.bloat_bytes)
    hidden = "" if sees_all else "; whether there is one is hidden from this user"
    return Finding(
        severity=Severity.WARNING if is_queue else Severity.NOTE,
        subject=SUBJECT,
        about=index.name,
        sentence=f"The index {index.name} takes {format_bytes(index.size_bytes)} for {format_plural(sizes.live_rows or 0, 'live row')}: about "
        f"{format_bytes(index.bloat_bytes)} of it ({share:.0f} %) hold no entry.{waits}",
        because="a search through it reads pages that are almost empty, and they take the place of others in memory",
        statement="" if in_the_way else f"REINDEX INDEX CONCURRENTLY {index.name};",
        caution=f"runs beside reads and writes, needs about {needed} of disk for the new index, and waits for transactions that are older{hidden}; "
        "if it is interrupted, it leaves an invalid index whose name ends with _ccnew, to be dropped",
    )
