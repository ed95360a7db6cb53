"""Which load does the queue have: jobs enqueued, running jobs, workers, sizes and work times of a sample of jobs?

Reads counters, sizes and times, never an argument, and distinguishes kinds of jobs by a salted hash. A sample is bounded and ends after `COUNT_TIMEOUT_MS`.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from stallbench.engines import loaded_errors
from stallbench.engines.collectors.statement_counts import plain_statement
from stallbench.errors import BadInputError
from stallbench.observe.diagnostic import Diagnostic, Reading, Section
from stallbench.observe.known_queue import Recorded
from stallbench.observe.observer import ForeignCodeError
from stallbench.observe.postgres.job_counts import COUNT_TIMEOUT_MS, MOST_COUNTED, MOST_RUNNING, JobCounts
from stallbench.observe.postgres.queues import TRY_AGAIN_S, QueuesDiagnostic
from stallbench.observe.postgres.recognition import QueueTable
from stallbench.observe.profile.file import write_profile
from stallbench.observe.profile.reading import LoadReading, Sampled

MOST_SAMPLED = 500
_SHARE_OF_SAMPLES = 0.002
"""Of one core's time on the server."""
OPTION = "--record-profile"
_INSERTED = (
    "SELECT leaf::bigint, pg_catalog.pg_stat_get_tuples_inserted(leaf) FROM pg_catalog.unnest(%s::pg_catalog.oid[]) AS leaf"
)
_LOCKING = """
SELECT DISTINCT pid FROM pg_catalog.pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND mode = 'ExclusiveLock' AND granted
AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
"""
_SESSIONS = """
SELECT pid, extract(epoch FROM backend_start)::double precision, CASE WHEN pg_catalog.strpos(pg_catalog.lower(query), pg_catalog.lower(%s)) > 0 THEN query END
FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()
"""
_SAMPLE = """
SELECT grouping(kind) = 1, kind, pg_catalog.count(*), pg_catalog.avg(size)::double precision,
  pg_catalog.percentile_cont(0.95) WITHIN GROUP (ORDER BY size), pg_catalog.max(size)::double precision,
  pg_catalog.count(work_s), pg_catalog.avg(work_s), pg_catalog.percentile_cont(0.5) WITHIN GROUP (ORDER BY work_s),
  pg_catalog.percentile_cont(0.95) WITHIN GROUP (ORDER BY work_s)
FROM (
  SELECT {kind} AS kind, {size} AS size, {work_s} AS work_s FROM {table} AS job {which} LIMIT {limit}
) AS sampled
GROUP BY GROUPING SETS ((kind), ())
"""


class LoadDiagnostic(Diagnostic):
    """Keeps a `LoadReading` of each reading of one queue."""

    name = "load"
    what = "the load of the queue"
    position = 25

    def __init__(self, queues: QueuesDiagnostic) -> None:
        """``queues``: finds the queue and counts its jobs; looks earlier."""
        self.queues = queues
        self.readings: list[LoadReading] = []
        self._claimed: set[tuple[int, float]] = set()
        self.salt = secrets.randbits(62)
        self._sample_not_before_s = 0.0
        self.is_replica = False
        self.stands_in: dict[str, str] = {}
        self.server = ""
        """Product and major version."""
        self.engine = "postgres"

    def require_queue(self) -> None:
        """Raise `BadInputError` if there is not exactly one queue whose load can be recorded."""
        tables = self.queues.tables
        if len(tables) != 1:
            titles = ", ".join(table.title for table in tables) or "none"
            raise BadInputError(f"{OPTION} records one queue; found {titles}; name one: --table SCHEMA.TABLE")
        (table,) = tables
        if self.find_recorded(table) is None:
            raise BadInputError(
                f"{OPTION}: {table.title} is not the table of a known library, so running jobs cannot be distinguished from others; "
                "add its description to stallbench/observe/known_queues/"
            )
        if not table.is_readable:
            raise BadInputError(f"{OPTION}: this user may not read {table.title}; GRANT SELECT ON {table.name}")
        if (counts := self.queues.counts.get(table.title)) and counts.remedy:
            raise BadInputError(f"{OPTION}: {table.title} was not read: {counts.why_not}; {counts.remedy}")
        if self.is_replica:
            raise BadInputError(f"{OPTION}: this server is a replica, which does not count enqueued jobs; give the primary")

    def find_table(self) -> QueueTable | None:
        """Return the queue's table; none if there is not exactly one queue."""
        return self.queues.tables[0] if len(self.queues.tables) == 1 else None

    def find_recorded(self, table: QueueTable) -> Recorded | None:
        """Return what can be seen of its jobs; none if its load cannot be recorded."""
        return table.known.recorded if table.known else None

    def count(self, table: QueueTable, reading: Reading) -> tuple[JobCounts | None, int | None, int | None]:
        """Return the counts of the queue, the jobs that wait, and those that run and are not overdue; none for what was not counted as a whole."""
        counts = self.queues.counted_at(table, reading.at_s)
        if counts is None:
            return None, None, None
        waiting = counts.ready if counts.ready is not None and counts.ready <= MOST_COUNTED else None
        if counts.running is None or counts.running > MOST_RUNNING:
            return counts, waiting, None
        return counts, waiting, max(0, counts.running - (counts.overdue or 0))

    def write(self, path: Path, *, every_s: float) -> None:
        """Write what was read as a scenario; raises `NotCarriedOutError` if something that a scenario needs was not seen."""
        write_profile(path, self.readings, self.stands_in, server=self.server, engine=self.engine, every_s=every_s)

    def read(self, reading: Reading) -> Section:
        """Add a reading; the section has no title, so the report does not show it."""
        self.is_replica = reading.state.is_replica
        table = self.find_table()
        recorded = self.find_recorded(table) if table else None
        if table is None or recorded is None:
            return Section(title="")
        self.stands_in, self.server = recorded.queue, f"PostgreSQL {reading.server.version // 10_000}"
        at_s = time.monotonic()
        inserted = dict(reading.server.execute(_INSERTED, (list(table.leaves),)).fetchall())
        counts, waiting, running = self.count(table, reading)
        locking = {pid for (pid,) in reading.server.execute(_LOCKING).fetchall()} if recorded.locks_jobs else set()
        claiming = self._find_claiming_sessions(reading, table, locking) if recorded.has_session_per_worker else None
        if recorded.locks_jobs:
            running = len(locking & claiming if claiming else locking)
            waiting = None if waiting is None else max(0, waiting - running)
        total, by_kind = self._sample(reading, table, recorded)
        self.readings.append(
            LoadReading(
                at_s=at_s,
                inserted=inserted,
                waiting=waiting,
                oldest_s=counts.oldest_s if counts and not recorded.locks_jobs else None,
                running=running,
                worker_sessions=len(claiming) if claiming else None,
                sampled=total,
                by_kind=by_kind,
            )
        )
        return Section(title="")

    def _find_claiming_sessions(self, reading: Reading, table: QueueTable, locking: Collection[int]) -> set[int]:
        """Return the open sessions that have executed a claim at this or an earlier reading; none if their statements are hidden.

        ``locking``: the sessions with advisory locks; their last statement on the queue may be another one than the claim.
        """
        pattern = table.known.claim_pattern if table.known else None
        pattern = pattern or re.compile(rf"\b{re.escape(table.plain_name)}\b.* for (no key )?update", re.IGNORECASE)
        rows = reading.server.execute(_SESSIONS, (table.plain_name,)).fetchall()
        self._claimed |= {
            (pid, start) for pid, start, query in rows if query and (pid in locking or pattern.search(plain_statement(query)))
        }
        self._claimed &= {(pid, start) for pid, start, _ in rows}
        return {pid for pid, _ in self._claimed}

    def _sample(self, reading: Reading, table: QueueTable, recorded: Recorded) -> tuple[Sampled | None, dict[int, Sampled]]:
        """Return the figures of a sample, together and by kind; none if it is not its turn, or the server refuses."""
        if reading.at_s < self._sample_not_before_s:
            return None, {}
        spent_s = reading.server.spent_s
        found = None
        try:
            found = sample_jobs(reading.server, table, recorded, self.salt)
        except ForeignCodeError:
            pass  # the subject that counts the jobs says so
        except loaded_errors():
            pass  # an older or newer version of the library without such a column, or a sample that took too long
        if found is None:
            self._sample_not_before_s = reading.at_s + TRY_AGAIN_S
            return None, {}
        self._sample_not_before_s = reading.at_s + max(0.0, reading.server.spent_s - spent_s) / _SHARE_OF_SAMPLES
        return found


def sample_jobs(server: Any, table: QueueTable, recorded: Recorded, salt: int) -> tuple[Sampled | None, dict[int, Sampled]]:
    """Return the figures of at most `MOST_SAMPLED` jobs, together (none if there is no job) and by a hash of their kind.

    Raises `ForeignCodeError`, and psycopg's errors; `psycopg.errors.UndefinedColumn` if this version of the library has no such column.
    """
    query = _write_sample(table, recorded, salt)
    rows = server.execute(query, timeout_ms=COUNT_TIMEOUT_MS, tables=table.read_by(query)).fetchall()
    total = next((_read(row) for row in rows if row[0] and row[2]), None)
    return total, {row[1]: _read(row) for row in rows if not row[0] and row[1] is not None}


def _write_sample(table: QueueTable, recorded: Recorded, salt: int) -> str:
    known = table.known
    assert known is not None, "the load of no other table is recorded"
    if recorded.newest:
        which = f"ORDER BY {recorded.newest} DESC"
    else:
        conditions = [known.ready.where]
        if known.running and not known.running.table:
            conditions.append(known.running.where)
        which = "WHERE " + " OR ".join(f"({condition})" for condition in conditions)
    has_times = recorded.started and recorded.finished
    return _SAMPLE.format(
        kind=f"pg_catalog.hashtextextended({recorded.kind}::pg_catalog.text, {salt})" if recorded.kind else "NULL::bigint",
        size=f"pg_catalog.pg_column_size({recorded.payload})" if recorded.payload else "NULL::int",
        work_s=f"extract(epoch FROM ({recorded.finished}) - ({recorded.started}))::double precision"
        if has_times
        else "NULL::double precision",
        table=table.name,
        which=which,
        limit=MOST_SAMPLED,
    )


def _read(row: tuple[Any, ...]) -> Sampled:
    _, _, jobs, mean_bytes, p95_bytes, max_bytes, finished, work_s, p50_s, p95_s = row
    return Sampled(
        jobs=jobs,
        payload_bytes=mean_bytes,
        payload_p95_bytes=p95_bytes,
        payload_max_bytes=max_bytes,
        finished=finished,
        work_s=None if work_s is None else max(0.0, work_s),
        work_p50_s=p50_s,
        work_p95_s=p95_s,
    )
