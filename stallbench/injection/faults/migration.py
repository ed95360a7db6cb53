"""A schema migration of the queue while workers run: an index, and a column with a value for every job; or a library's own."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.alter_table import REMOVED_WITHIN_S
from stallbench.injection.faults.fault import Fault, FaultOptions, FaultPlace
from stallbench.injection.faults.library_migration import LibraryMigration, find_library_issue
from stallbench.injection.faults.side_session import SideSession
from stallbench.queues import find_queue
from stallbench.queues.library_queue import LibraryQueue
from stallbench.records.injections import ENDED_BY_DEADLOCK, LOCKED_JOBS, Evidence
from stallbench.waiting import wait_until

_POLL_S = 0.05
_LOCK_TIMEOUT_S = 0.5
"""How long each attempt to remove what the migration has made may block the queue."""
_KEY = "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = '{table}'::pg_catalog.regclass AND attnum = 1"
_IS_LEFT = """
SELECT 1 FROM pg_catalog.pg_class WHERE relname = '{new}_index' UNION ALL
SELECT 1 FROM pg_catalog.pg_attribute WHERE attrelid = '{table}'::pg_catalog.regclass AND attname = '{new}' AND NOT attisdropped
"""
_ALL_AT_ONCE = """
CREATE INDEX {new}_index ON {table} ({key});
ALTER TABLE {table} ADD COLUMN {new} bigint GENERATED ALWAYS AS ({key} + 1) STORED
"""
"""Sent as one text, so that it is one transaction. A stored generated column makes PostgreSQL rewrite the whole table."""
_IN_STEPS = (
    "DROP INDEX CONCURRENTLY IF EXISTS {new}_index",  # left by a failed attempt
    "CREATE INDEX CONCURRENTLY {new}_index ON {table} ({key})",
    "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {new} bigint; ALTER TABLE {table} ALTER COLUMN {new} SET DEFAULT 0",
)
_FILLED_AT_ONCE = 10_000
_FILL = f"""
UPDATE {{table}} SET {{new}} = {{key}} + 1
WHERE {{key}} IN (SELECT {{key}} FROM {{table}} WHERE {{new}} IS NULL ORDER BY {{key}} DESC LIMIT {_FILLED_AT_ONCE} FOR UPDATE SKIP LOCKED)
"""


class MigrationOptions(FaultOptions):
    """Options of `Migration`."""

    how: Literal["one_transaction", "steps"] = Field(
        default="one_transaction",
        description="everything in one transaction, or in steps: the index concurrently, an empty column, its values ten thousand at a time",
    )
    lock_timeout_s: Duration | None = Field(
        default=None,
        alias="lock_timeout",
        gt=0,
        le=3600,
        description="how long each statement waits for a lock before it gives up",
    )
    retry_after_s: Duration = Field(
        default=2.0, alias="retry_after", gt=0, le=3600, description="how long after a failed attempt the next one begins"
    )


class Migration(Fault[MigrationOptions]):
    """In one transaction, the lock for the index lets workers claim jobs, but not complete them.

    The column needs an exclusive lock. The workers that have claimed a job also have locks on the table, and wait for the migration: a deadlock. The
    server aborts the transaction of the migration or of a worker. The fault is over when the migration has succeeded.

    A library's tables are migrated by the library's own code instead, from the version of its option ``version`` to that of ``upgrade_to``. The
    tables then stay as they are, and workers that start later are of the newer version.
    """

    kind = "migration"
    meanwhile = "a migration changed the jobs table"
    summary = (
        "adds an index and a filled column to the jobs table while workers run, in one transaction or in steps; "
        "the tables of a library are migrated by the library's own code"
    )
    source = "pg-boss issue 832, que issue 342, oban issue 1373"
    explains_errors = frozenset({ErrorKind.LOCK_TIMEOUT, ErrorKind.DEADLOCK, ErrorKind.SCHEMA_CHANGED})
    targets = ("primary",)
    engines = frozenset({"postgres"})
    on_external = "if allowed"
    options_type = MigrationOptions

    _of_library: LibraryMigration | None = None
    _session: SideSession | None = None
    _watch: SideSession | None = None
    _step = 0
    _attempts = 0
    _has_filled = False
    _deadlocks = 0
    _next_s: float | None = None
    """When the step is tried again; none while it runs."""
    _done_s: float | None = None

    @classmethod
    def find_issue(cls, options: MigrationOptions, place: FaultPlace) -> tuple[str, str] | None:
        """Find a library that cannot be migrated, or an option that is not for libraries."""
        if not issubclass(place.queue, LibraryQueue):
            return None
        if options.how == "steps":
            return "how", f' is "steps", but {place.queue.kind} decides about its migration; leave it out'
        if options.lock_timeout_s is not None:
            return "lock_timeout", f" is given, but {place.queue.kind} decides about its migration; leave it out"
        return find_library_issue(place.queue, place)

    def inject(self) -> Evidence:
        """Begin the first step."""
        if issubclass(find_queue(self.context.queue.kind), LibraryQueue):
            self._of_library = LibraryMigration(self.name, self.context, self.on, retry_after_s=self.options.retry_after_s)
            return self._of_library.begin()
        endpoint = self.context.cluster.server(self.on).direct
        self._watch = SideSession(endpoint, f"{self.name}:watch")
        table = self.context.queue.tables[0]
        self._names = {
            "table": table,
            "key": str(self._watch.run(_KEY.format(table=table))[0][0]),
            "new": re.sub(r"\W", "_", f"of_{self.name}"),
        }
        if self._is_left(self._watch):
            raise NotCarriedOutError(f"{table} already has an index or a column with the name that {self.name} uses")
        self._session = SideSession(endpoint, self.name)
        if self.options.lock_timeout_s is not None:
            self._session.set_lock_timeout(self.options.lock_timeout_s)
        self._began_s = time.monotonic()
        self._try(self._session)
        return {"pid": self._session.pid, **self._names}

    def tick(self) -> None:
        """When a step has ended, begin the next one, or repeat it."""
        if self._of_library is not None:
            self._of_library.tick()
            return
        assert self._session is not None
        if self._session.is_running or self._done_s is not None:
            return
        if self._next_s is None:
            self._read_result(self._session)
        elif time.monotonic() >= self._next_s:
            self._try(self._session)

    def is_over(self) -> bool:
        """Whether the migration has succeeded."""
        return self._done_s is not None if self._of_library is None else self._of_library.is_done

    def undo(self) -> Evidence:
        """End the migration, and remove what it has made; a library's tables stay migrated."""
        if self._of_library is not None:
            return self._of_library.end()
        if self._watch is None:
            return {}
        ended_s = self._done_s or time.monotonic()
        if self._session is not None:
            self._session.end()
        self._remove(self._watch)
        self._watch.end()
        if not self._attempts:
            return {}
        return {
            "done": self._done_s is not None,
            "attempts": self._attempts,
            ENDED_BY_DEADLOCK: self._deadlocks,
            LOCKED_JOBS: _FILLED_AT_ONCE if self._has_filled else 0,
            "took_s": round(ended_s - self._began_s, 3),
        }

    @property
    def _steps(self) -> Sequence[str]:
        return (_ALL_AT_ONCE,) if self.options.how == "one_transaction" else (*_IN_STEPS, _FILL)

    def _try(self, session: SideSession) -> None:
        session.begin(self._steps[self._step].format(**self._names))
        self._has_filled |= self._steps[self._step] is _FILL
        self._attempts += 1
        self._next_s = None

    def _read_result(self, session: SideSession) -> None:
        """Go on to the next step, or plan another attempt; the step that fills the column is repeated until it finds no job."""
        failure = session.find_failure()
        if failure is None:
            if self._steps[self._step] is _FILL and self._has_empty_values(session):
                self._try(session)
                return
            self._step += 1
            if self._step == len(self._steps):
                self._done_s = time.monotonic()
            else:
                self._try(session)
            return
        self._deadlocks += failure == "deadlock"
        self._next_s = time.monotonic() + self.options.retry_after_s

    def _has_empty_values(self, session: SideSession) -> bool:
        return bool(session.run("SELECT 1 FROM {table} WHERE {new} IS NULL LIMIT 1".format(**self._names)))

    def _is_left(self, session: SideSession) -> bool:
        return bool(session.run(_IS_LEFT.format(**self._names)))

    def _remove(self, session: SideSession) -> None:
        def is_removed() -> bool:
            if not self._is_left(session):
                return True
            session.begin(
                "DROP INDEX IF EXISTS {new}_index; ALTER TABLE {table} DROP COLUMN IF EXISTS {new}".format(**self._names)
            )
            session.wait()
            return session.find_failure() is None

        session.set_lock_timeout(_LOCK_TIMEOUT_S)
        if not wait_until(is_removed, within_s=REMOVED_WITHIN_S, every_s=_POLL_S):
            raise NotCarriedOutError(
                "index {new}_index and column {new} could not be removed from {table}".format(**self._names)
                + f" within {REMOVED_WITHIN_S:.0f} s: the table was always locked"
            )
