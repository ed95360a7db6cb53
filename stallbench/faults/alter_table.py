"""A migration waits for its lock behind a long transaction, and everybody else waits behind the migration."""

from __future__ import annotations

import re
import time
from typing import Any

from pydantic import Field

from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.faults.fault import Fault, FaultOptions
from stallbench.faults.side_session import SideSession
from stallbench.scenario.duration import Duration

_SEEN_S = 10.0
"""Until the server must say that the migration waits."""
_PUT_RIGHT_S = 60.0
_LOOK_EVERY_S = 0.005
_PATIENCE_S = 1.0
"""How long the queue may be blocked by the column's removal, each time that this is tried."""


class AlterTableOptions(FaultOptions):
    """Options of `AlterTable`."""

    reader_for_s: Duration = Field(
        default=10.0,
        alias="reader_for",
        gt=0,
        le=3600,
        description="how long a transaction that has read the jobs table stays open; the statement comes while it is",
    )
    lock_timeout_s: Duration | None = Field(
        default=None,
        alias="lock_timeout",
        gt=0,
        le=3600,
        description="after how long the statement gives up its place in the line; on MariaDB and MySQL in whole seconds",
    )
    retry_after_s: Duration = Field(
        default=1.0, alias="retry_after", gt=0, le=3600, description="after giving up, until it is tried again"
    )


class AlterTable(Fault[AlterTableOptions]):
    """``ALTER TABLE .. ADD COLUMN`` on the jobs table.

    It takes no time itself, but needs the table for itself for a moment. A transaction that has merely read it is in the way, and as locks are
    given in the order in which they were asked for, every claim and every enqueue lines up behind the statement. It is over when the column is there.
    """

    kind = "alter_table"
    summary = "a column is added to the jobs table while a long transaction has read it, and all wait behind the statement"
    source = (
        "PostgreSQL's documentation of explicit locking; GoCardless, 'Zero-downtime Postgres migrations - the hard parts' (2015); "
        "MariaDB's and MySQL's documentation of metadata locking"
    )
    explains_errors = frozenset({ErrorKind.LOCK_TIMEOUT, ErrorKind.DEADLOCK, ErrorKind.SCHEMA_CHANGED})
    places = ("primary",)
    engines = frozenset({"postgres", "mariadb", "mysql"})
    options_type = AlterTableOptions

    _reader: SideSession | None = None
    _migration: SideSession | None = None
    _watch: SideSession | None = None
    _reader_is_over = False
    _reader_held = False
    """Whether it was there to its own end: a time-out of the server may be what helps."""
    _attempts = 0
    _most_behind = 0
    _next_s: float | None = None
    """When it is tried again; none while it is being tried."""
    _done_s: float | None = None

    def inject(self) -> dict[str, Any]:
        """Read the table in a transaction that stays open; then begin the migration, and see that it waits."""
        endpoint = self.context.cluster.server(self.on).direct
        self._table = self.context.queue["tables"][0]
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
        self._see_it_wait(self._migration, self._watch)
        return {"pid": self._migration.pid, "reader_pid": self._reader.pid, "table": self._table}

    def keep_up(self) -> None:
        """End the reader when its time has come; count who waits; try again."""
        assert self._reader is not None
        assert self._migration is not None
        assert self._watch is not None
        now_s = time.monotonic()
        if not self._reader_is_over and now_s >= self._began_s + self.options.reader_for_s:
            self._end_reader(self._reader, self._watch)
        if self._next_s is not None:
            if now_s >= self._next_s:
                self._try()
        elif self._migration.is_running:
            self._most_behind = max(self._most_behind, self._migration.find_waiting(self._watch)[1])
        elif self._done_s is None:
            self._see_end(now_s)

    def is_over(self) -> bool:
        """Whether the column is there."""
        return self._done_s is not None

    def undo(self) -> dict[str, Any]:
        """End both sessions, and remove the column."""
        if self._watch is None:
            return {}
        if self._migration is not None:
            self._migration.end()
        if self._reader is not None and not self._reader_is_over:
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
        self._reader_is_over = True
        self._reader_held = reader.is_known(watch)
        reader.end()

    def _see_it_wait(self, migration: SideSession, watch: SideSession) -> None:
        until_s = time.monotonic() + _SEEN_S
        while time.monotonic() < until_s:
            is_waiting, self._most_behind = migration.find_waiting(watch)
            if is_waiting:
                return
            if not migration.is_running:
                self._see_end(time.monotonic())
                if self.is_over():
                    raise NotCarriedOutError(f"the column was added to {self._table} although a transaction had read it")
                return
            time.sleep(_LOOK_EVERY_S)
        raise NotCarriedOutError(f"the server did not say within {_SEEN_S:.0f} s that the statement waits")

    def _see_end(self, now_s: float) -> None:
        assert self._migration is not None
        if self._migration.succeeded():
            self._done_s = now_s
        else:
            self._next_s = now_s + self.options.retry_after_s

    def _remove_column(self, session: SideSession) -> None:
        session.set_lock_timeout(_PATIENCE_S)
        until_s = time.monotonic() + _PUT_RIGHT_S
        while self._has_column(session):
            session.begin(f"ALTER TABLE {self._table} DROP COLUMN {self._column}")
            while session.is_running:
                time.sleep(_LOOK_EVERY_S)
            if not session.succeeded() and time.monotonic() > until_s:
                raise NotCarriedOutError(f"column {self._column} could not be removed from {self._table}: it was always locked")

    def _has_column(self, session: SideSession) -> bool:
        names = f"table_name = '{self._table}' AND column_name = '{self._column}'"
        return bool(session.run(f"SELECT 1 FROM information_schema.columns WHERE {names}"))
