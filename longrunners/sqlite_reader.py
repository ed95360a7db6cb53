"""A reader on SQLite: as long as its transaction is open, no checkpoint can reset the WAL file, which therefore grows with every write."""

from __future__ import annotations

import os
import sqlite3
import time

from pydantic import Field

from longrunners.longrunner import Longrunner, LongrunnerOptions
from stallbench.base.duration import Duration
from stallbench.engines import driver_of
from stallbench.processes.role import Stop
from stallbench.records.injections import Evidence

_POLL_S = 0.1


class SQLiteReaderOptions(LongrunnerOptions):
    """Options of `SnapshotReaderOnSQLite`."""

    each_s: Duration | None = Field(
        default=None,
        alias="each",
        gt=0,
        le=86_400,
        description="length of each transaction, after which the next one begins; none: one transaction",
    )
    pause_s: Duration = Field(
        default=0.0, alias="pause", ge=0, le=86_400, description="with `each`: pause between two transactions"
    )


class SnapshotReaderOnSQLite(Longrunner[SQLiteReaderOptions]):
    """Reads once in a transaction, and keeps it open."""

    kind = "snapshot_reader"
    summary = "reads once in a transaction and idles in it, which keeps the WAL file from being reset"
    source = "SQLite's documentation of WAL, Avoiding Excessively Large WAL Files; litestream issue 1536"
    engines = frozenset({"sqlite"})
    options_type = SQLiteReaderOptions

    _connection: sqlite3.Connection
    _began_s: float

    def hold(self, stop: Stop) -> Evidence:
        """Begin to read."""
        self._connection = driver_of(self.document.endpoint.engine).connect(self.document.endpoint, self.document.name)
        self._begin()
        return {"kind": "backend", "pid": os.getpid(), "application": self.application_name}

    def keep(self, stop: Stop) -> None:
        """Begin a new transaction whenever one has been open for long enough."""
        while not stop.wait(_POLL_S):
            if self.options.each_s is not None and time.monotonic() >= self._began_s + self.options.each_s:
                self._connection.execute("COMMIT")
                stop.wait(self.options.pause_s)
                self._begin()

    def release(self) -> None:
        """End the transaction."""
        self._connection.execute("COMMIT")
        self._connection.close()

    def clean_up(self) -> list[str]:
        """Do nothing: the lock of a reader ends with its process."""
        return []

    def _begin(self) -> None:
        self._connection.execute("BEGIN")
        self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        self._began_s = time.monotonic()
