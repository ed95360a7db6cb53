"""Queries of which each is short enough, but one is always open: analytics that never looks like a long transaction.

Each reader's query sleeps on the server (``pg_sleep``): it holds its snapshot for as long as a query that computes would, without taking the
processor away from the queue, so that what is measured is the horizon and nothing else.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg
from pydantic import Field

from longrunners.longrunner import Connection, Longrunner, LongrunnerOptions, LostError
from stallbench.duration import Duration
from stallbench.role import Stop, say


class OverlappingReadersOptions(LongrunnerOptions):
    """How many, and how long each query takes."""

    readers: int = Field(default=3, ge=2, le=32, description="readers, each on a connection of its own")
    each_s: Duration = Field(default=20.0, alias="each", gt=0, le=3600, description="how long each query takes")


class OverlappingReaders(Longrunner[OverlappingReadersOptions]):
    """N readers whose queries of T seconds begin T/N apart."""

    kind = "overlapping_readers"
    summary = "staggered queries, each short, of which one is always open"
    source = "analytics on the primary, as reported by users of queues on PostgreSQL"
    options_type = OverlappingReadersOptions

    def hold(self) -> dict[str, Any]:
        """Start the readers and return when the first has its query open."""
        self._ended = threading.Event()
        self._failed: list[str] = []
        self._connections = [self.connect() for _ in range(self.options.readers)]
        self._threads = [
            threading.Thread(target=self._read, args=(number, connection), daemon=True)
            for number, connection in enumerate(self._connections)
        ]
        for thread in self._threads:
            thread.start()
        return {"kind": "backend", "pid": self._connections[0].info.backend_pid}

    def keep(self, stop: Stop) -> None:
        """Watch the readers."""
        while not stop.wait(0.2):
            if self._failed:
                raise LostError(self._failed[0])

    def let_go(self) -> None:
        """Cancel what is open."""
        self._ended.set()
        for connection in self._connections:
            connection.cancel_safe(timeout=5)
        for thread in self._threads:
            thread.join(timeout=5)
        for connection in self._connections:
            connection.close()

    def _read(self, number: int, connection: Connection) -> None:
        """Query over and over: first after this reader's part of the stagger, then without a pause."""
        self._ended.wait(number * self.options.each_s / self.options.readers)
        while not self._ended.is_set():
            say(reader=number + 1, began=True)
            try:
                connection.execute("SELECT count(*), pg_sleep(%s) FROM pg_class", (self.options.each_s,))
            except psycopg.errors.QueryCanceled:
                if not self._ended.is_set():
                    say(reader=number + 1, cancelled=True)
            except psycopg.Error as error:
                if not self._ended.is_set():
                    self._failed.append(f"{error.sqlstate or 'connection'}: {str(error).strip()}")
                return
