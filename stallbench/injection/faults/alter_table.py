"""A migration waits for its lock behind a long transaction, and all other sessions wait behind the migration."""

from __future__ import annotations

import re
import time

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines import SESSION_ENGINES
from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.injection.faults.side_session import SideSession
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_WAITING_WITHIN_S = 10.0
"""How soon the server must report that the migration waits."""
REMOVED_WITHIN_S = 60.0
"""Within which the lock is got for the removal of what a change of the schema added."""
_POLL_S = 0.005
_LOCK_TIMEOUT_S = 1.0
"""How long each attempt to remove the column may block the queue."""


class AlterTableOptions(FaultOptions):
    """Options of `AlterTable`."""

    reader_for_s: Duration = Field(
        default=10.0,
        alias="reader_for",
        gt=0,
        le=3600,
        description="how long a transaction that has read the jobs table stays open; the statement begins meanwhile",
    )
    lock_timeout_s: Duration | None = Field(
        default=None,
        alias="lock_timeout",
        gt=0,
        le=3600,
        description="how long the statement waits for its lock before it gives up; on MariaDB and MySQL in whole seconds",
    )
    retry_after_s: Duration = Field(
        default=1.0, alias="retry_after", gt=0, le=3600, description="from giving up until the statement is tried again"
    )


class AlterTable(Fault[AlterTableOptions]):
    """``ALTER TABLE .. ADD COLUMN`` on the jobs table.

    The statement itself is fast, but it needs an exclusive lock on the table. A transaction that has only read the table blocks it. Locks are
    granted in the order in which they were requested, so every claim and every enqueue waits behind the statement. The fault is over when the
    column has been added.
    """

    kind = "alter_table"
    meanwhile = "ALTER TABLE waited behind a long transaction"
    summary = "ALTER TABLE adds a column while a long transaction has read the jobs table, and claims and enqueues wait behind it"
    source = (
        "PostgreSQL's documentation of explicit locking; GoCardless, 'Zero-downtime Postgres migrations - the hard parts' (2015); "
        "MariaDB's and MySQL's documentation of metadata locking"
    )
    explains_errors = frozenset({ErrorKind.LOCK_TIMEOUT, ErrorKind.DEADLOCK, ErrorKind.SCHEMA_CHANGED})
    targets = ("primary",)
    engines = SESSION_ENGINES
    options_type = AlterTableOptions

    _reader: SideSession | None = None
    _migration: SideSession | None = None
    _watch: SideSession | None = None
    _reader_has_ended = False
    _reader_held = False
    """Whether the reader still existed when the fault ended it: a timeout of the server may end it earlier, as a mitigation."""
    _attempts = 0
    _most_behind = 0
    _next_s: float | None = None
    """When the statement is tried again; none while it runs."""
    _done_s: float | None = None

    def inject(self) -> Evidence:
        """Read the table in a transaction that stays open, begin the migration, and wait until the server reports that it waits."""
        endpoint = self.context.cluster.server(self.on).direct
        self._table = self.context.queue.tables[0]
        self._column = re.sub(r"\W", "_", f"of_{self.name}")
        self._watch = SideSession(endpoint, f"{self.name}:watch")
        self._reader = SideSession(endpoint, f"{self.name}:reader")
        self._migration = SideSession(endpoint, self.name)
        if self.options.lock_timeout_s is not None:
            self._migration.set_lock_timeout(self.options.lock_timeout_s)
        self._began_s = time.monotonic()
        self._reader.run("BEGIN")
        self._reader.run(f"SELECT 1 FROM {self._table} LIMIT 1")
        self._try()
        self._verify_waiting(self._migration, self._watch)
        return {"pid": self._migration.pid, "reader_pid": self._reader.pid, "table": self._table}

    def tick(self) -> None:
        """End the reader at its time, count the waiting sessions, and try the statement again."""
        assert self._reader is not None
        assert self._migration is not None
        assert self._watch is not None
        now_s = time.monotonic()
        if not self._reader_has_ended and now_s >= self._began_s + self.options.reader_for_s:
            self._end_reader(self._reader, self._watch)
        if self._next_s is not None:
            if now_s >= self._next_s:
                self._try()
        elif self._migration.is_running:
            self._most_behind = max(self._most_behind, self._migration.find_waiting(self._watch)[1])
        elif self._done_s is None:
            self._read_result(now_s)

    def is_over(self) -> bool:
        """Whether the column has been added."""
        return self._done_s is not None

    def undo(self) -> Evidence:
        """End both sessions and remove the column."""
        if self._watch is None:
            return {}
        if self._migration is not None:
            self._migration.end()
        if self._reader is not None and not self._reader_has_ended:
            self._end_reader(self._reader, self._watch)
        self._remove_column(self._watch)
        self._watch.end()
        if not self._attempts:
            return {}
        ended_s = self._done_s or time.monotonic()
        return {
            "done": self._done_s is not None,
            "reader_held": self._reader_held,
            "attempts": self._attempts,
            "took_s": round(ended_s - self._began_s, 3),
            "most_waiting_behind_it": self._most_behind,
        }

    def _try(self) -> None:
        assert self._migration is not None
        self._migration.begin(f"ALTER TABLE {self._table} ADD COLUMN {self._column} integer")
        self._attempts += 1
        self._next_s = None

    def _end_reader(self, reader: SideSession, watch: SideSession) -> None:
        self._reader_has_ended = True
        self._reader_held = reader.is_known(watch)
        reader.end()

    def _verify_waiting(self, migration: SideSession, watch: SideSession) -> None:
        def is_waiting_or_over() -> bool:
            is_waiting, self._most_behind = migration.find_waiting(watch)
            return is_waiting or not migration.is_running

        if not wait_until(is_waiting_or_over, within_s=_WAITING_WITHIN_S, every_s=_POLL_S):
            raise NotCarriedOutError(f"the server did not report within {_WAITING_WITHIN_S:.0f} s that the statement waits")
        if not migration.is_running:
            self._read_result(time.monotonic())
            if self.is_over():
                raise NotCarriedOutError(f"the column was added to {self._table} although a transaction had read it")

    def _read_result(self, now_s: float) -> None:
        assert self._migration is not None
        if self._migration.succeeded():
            self._done_s = now_s
        else:
            self._next_s = now_s + self.options.retry_after_s

    def _remove_column(self, session: SideSession) -> None:
        def is_removed() -> bool:
            if self._has_column(session):
                session.begin(f"ALTER TABLE {self._table} DROP COLUMN {self._column}")
                session.wait()
                return session.succeeded()
            return True

        session.set_lock_timeout(_LOCK_TIMEOUT_S)
        if not wait_until(is_removed, within_s=REMOVED_WITHIN_S, every_s=_POLL_S):
            raise NotCarriedOutError(
                f"column {self._column} could not be removed from {self._table} within {REMOVED_WITHIN_S:.0f} s: the table was always locked"
            )

    def _has_column(self, session: SideSession) -> bool:
        schema, _, table = self._table.rpartition(".")
        names = f"table_name = '{table}' AND column_name = '{self._column}'" + (
            f" AND table_schema = '{schema}'" if schema else ""
        )
        return bool(session.run(f"SELECT 1 FROM information_schema.columns WHERE {names}"))
