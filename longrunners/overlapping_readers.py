"""Short queries that overlap, so that one is always open: analytics without a long transaction.

Each reader's transaction reads once, which takes its snapshot, and then sleeps on the server (``pg_sleep``). It holds the snapshot exactly as
long as the scenario says. Like a query that computes, its session is active, but it uses no processor time, so only the effect of the horizon
is measured.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence

import psycopg
from pydantic import Field

from longrunners.longrunner import LongrunnerOptions, LostError
from longrunners.postgres_longrunner import Connection, PostgresLongrunner, describe
from stallbench.base.duration import Duration
from stallbench.engines.reconnection import reconnect
from stallbench.processes.role import CannotContinueError, Stop, send_message
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_POLL_S = 0.2
_PAUSE_S = 0.2
"""Pause after a cancelled query, so that a server that cancels every query at once is not flooded."""
_END_WITHIN_S = 5.0
_REFUSED_FOR_S = 1.0
"""How long a reader whose query was refused waits until it tries again."""


class OverlappingReadersOptions(LongrunnerOptions):
    """Options of `OverlappingReaders`."""

    readers: int = Field(default=3, ge=2, le=32, description="readers, each with its own connection")
    each_s: Duration = Field(default=20.0, alias="each", ge=0.1, le=3600, description="how long each query takes")
    at_once: int | None = Field(
        default=None,
        ge=1,
        description="concurrency limit: the largest number of open queries; a reader that would exceed it is refused, and tries again after a second",
    )


class OverlappingReaders(PostgresLongrunner[OverlappingReadersOptions]):
    """N readers whose queries of T seconds begin T/N apart."""

    kind = "overlapping_readers"
    summary = "staggered short queries, one of which is always open"
    source = "analytics on the primary, as reported by users of queues on PostgreSQL"
    roles = ("primary", "replica")
    options_type = OverlappingReadersOptions

    _threads: Sequence[threading.Thread] = ()

    def hold(self, stop: Stop) -> Evidence:
        """Start the readers and return when the first has its snapshot."""
        self._broken: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._message_lock = threading.Lock()
        connections = [self.connect() for _ in range(self.options.readers)]
        start_s = time.monotonic()
        first_began = threading.Event()
        self._admitted = threading.BoundedSemaphore(self.options.at_once or self.options.readers)
        self._threads = [
            threading.Thread(target=self._read, args=(number, connection, start_s, first_began, stop), daemon=True)
            for number, connection in enumerate(connections)
        ]
        for thread in self._threads:
            thread.start()
        while not first_began.wait(_POLL_S):
            if not self._broken.empty():
                raise CannotContinueError(self._broken.get())
            if stop.asked:
                break
        return {"kind": "backend", "pid": connections[0].info.backend_pid, "application": self.application_name}

    def keep(self, stop: Stop) -> None:
        """Check the readers. Each of them reconnects until it can no longer reach the server."""
        while not stop.wait(_POLL_S):
            self._raise_if_broken()

    def release(self) -> None:
        """End the open queries: if the client only disconnected, the server would continue them."""
        if not wait_until(self._have_ended, within_s=_END_WITHIN_S, every_s=0):
            raise LostError(f"the readers' queries did not end within {_END_WITHIN_S:.0f} s")
        self._raise_if_broken()

    def _have_ended(self) -> bool:
        """Whether every reader has ended; ends the queries of those that have not."""
        if any(thread.is_alive() for thread in self._threads):
            self.clean_up()
            for thread in self._threads:
                thread.join(timeout=_POLL_S)
        return not any(thread.is_alive() for thread in self._threads)

    def _raise_if_broken(self) -> None:
        if not self._broken.empty():
            raise LostError(self._broken.get())

    def _read(self, number: int, connection: Connection, start_s: float, first_began: threading.Event, stop: Stop) -> None:
        """Repeat the query, each time until the end of this reader's current period, so that the readers stay staggered after a query was
        cancelled. With a concurrency limit each query takes its full time, whenever it is admitted.
        """
        each_s = self.options.each_s
        start_s += number * each_s / self.options.readers
        stop.wait(start_s - time.monotonic())
        while not stop.asked:
            if not self._admitted.acquire(blocking=False):
                stop.wait(_REFUSED_FOR_S)
                continue
            began_s = time.monotonic()
            lasts_s = each_s if self.options.at_once else each_s - (began_s - start_s) % each_s
            pause_s = _REFUSED_FOR_S if self.options.at_once else 0.0
            try:
                if connection.closed:
                    connection = reconnect(self.connect, stop)
                self._query(number, connection, lasts_s, first_began)
            except CannotContinueError as error:
                if not stop.asked:
                    self._broken.put(str(error))
                    return
            except psycopg.Error as error:
                self._clear(connection)
                if not stop.asked:
                    lasted_s = round(time.monotonic() - began_s, 3)
                    self._report(cancelled={"reader": number + 1, "lasted_s": lasted_s, "why": describe(error)})
                    pause_s = _PAUSE_S
            finally:
                self._admitted.release()
            stop.wait(pause_s)
        connection.close()

    def _query(self, number: int, connection: Connection, lasts_s: float, first_began: threading.Event) -> None:
        began_s = time.monotonic()
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SELECT pg_catalog.count(*) FROM pg_catalog.pg_class")
        first_began.set()
        self._report(began={"reader": number + 1, "lasts_s": round(lasts_s, 3)})
        connection.execute("SELECT pg_catalog.pg_sleep(%s)", (lasts_s,))
        connection.execute("COMMIT")
        self._report(ended={"reader": number + 1, "lasted_s": round(time.monotonic() - began_s, 3)})

    def _clear(self, connection: Connection) -> None:
        """Roll back the failed transaction; if that fails, close the connection."""
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()

    def _report(self, **message: object) -> None:
        with self._message_lock:
            send_message(**message)
