"""Is an autovacuum worker free for the queue's tables, and how long have the tables been waiting for one?

A table that is due for a vacuum starves while every worker is busy with other tables, even if no transaction is old.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

_WORKERS = """
SELECT pg_catalog.current_setting('autovacuum_max_workers')::int, pid, pg_catalog.regexp_replace(query, '^autovacuum: ', ''),
  extract(epoch FROM pg_catalog.clock_timestamp() - xact_start)::double precision
FROM (SELECT) AS always
LEFT JOIN pg_catalog.pg_stat_activity ON backend_type = 'autovacuum worker'
"""

# PostgreSQL's documentation, "The Autovacuum Daemon". The setting that caps it is PostgreSQL 18's.
VACUUM_THRESHOLD = """
  least(
    coalesce(own.threshold, pg_catalog.current_setting('autovacuum_vacuum_threshold'))::double precision
    + coalesce(own.scale_factor, pg_catalog.current_setting('autovacuum_vacuum_scale_factor'))::double precision * greatest(reltuples, 0),
    nullif(coalesce(own.most, pg_catalog.current_setting('autovacuum_vacuum_max_threshold', true)), '-1')::double precision
  )
"""
"""SQL: the dead tuples above which autovacuum vacuums a table, from a row of ``pg_class`` and `OWN_VACUUM_SETTINGS`."""
OWN_VACUUM_SETTINGS = """
CROSS JOIN LATERAL (
  SELECT
    pg_catalog.max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold') AS threshold,
    pg_catalog.max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor') AS scale_factor,
    pg_catalog.max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_max_threshold') AS most,
    pg_catalog.max(option_value) FILTER (WHERE option_name = 'autovacuum_enabled') AS enabled
  FROM pg_catalog.pg_options_to_table(reloptions)
) AS own
"""
"""SQL: joins a table's own settings to its row of ``pg_class``."""
_TABLES = f"""
SELECT name, pg_catalog.pg_stat_get_dead_tuples(id), pg_catalog.pg_stat_get_vacuum_count(id) + pg_catalog.pg_stat_get_autovacuum_count(id),
  id IN (SELECT relid FROM pg_catalog.pg_stat_progress_vacuum),
  {VACUUM_THRESHOLD}
FROM (SELECT name, pg_catalog.to_regclass(name) AS id FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS name) AS watched
JOIN pg_catalog.pg_class ON pg_class.oid = id
{OWN_VACUUM_SETTINGS}
"""


class AutovacuumWorker(NamedTuple):
    """An autovacuum worker that is running."""

    pid: int
    doing: str
    """Like ``VACUUM public.jobs``."""
    busy_s: float | None


def read_workers(connection: Any) -> tuple[int, list[AutovacuumWorker]]:
    """Return how many workers the server may run, and those that are running."""
    rows = connection.execute(_WORKERS).fetchall()
    return rows[0][0], [AutovacuumWorker(pid, doing, busy_s) for _, pid, doing, busy_s in rows if pid is not None]


class AutovacuumCollector(ServerCollector):
    """Counts the primary's autovacuum workers, and measures how long each of the queue's tables has been due without a vacuum."""

    name = "autovacuum"

    def __init__(self, document: CollectorsDocument) -> None:
        """Start with no table due."""
        super().__init__(document)
        self._due_since_s: dict[str, float] = {}
        self._vacuums: dict[str, int] = {}

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield how many workers are busy and free, what each does, and how long each table has been overdue, 0 if it is not."""
        most, busy = read_workers(connection)
        counts = {"autovacuum_workers_busy": len(busy), "autovacuum_workers_free": max(most - len(busy), 0)}
        yield from samples_of(server.name, "server", counts)
        for pid, doing, busy_s in busy:
            yield from samples_of(server.name, f"autovacuum:{pid}", {"doing": doing, "busy_s": busy_s})
        tables = connection.execute(_TABLES, (list(self.document.queue.tables),)).fetchall()
        for name, dead, vacuums, in_progress, threshold in tables:
            overdue_s = self._measure_wait(name, vacuums, is_due=dead > threshold and not in_progress)
            values = {"vacuum_threshold_tuples": threshold, "vacuum_overdue_s": overdue_s}
            yield from samples_of(server.name, f"table:{name}", values)

    def _measure_wait(self, name: str, vacuums: int, *, is_due: bool) -> float:
        """Return for how long a table has been due. The wait restarts when a vacuum ends and leaves too many dead tuples."""
        now_s = time.monotonic()
        if not is_due or vacuums != self._vacuums.get(name, vacuums):
            self._due_since_s.pop(name, None)
        self._vacuums[name] = vacuums
        return now_s - self._due_since_s.setdefault(name, now_s) if is_due else 0.0
