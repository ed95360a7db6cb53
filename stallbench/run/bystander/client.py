"""The bystander's loop: when a query is due, send it, and repeat it until it is answered.

Queries are due at fixed times, whatever the server does. There is one connection, so a query that is not answered delays those that are due after it,
and their time counts from when they were due: a server that stands still shows as long times and not as missing ones.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stallbench.engines import driver_of
from stallbench.processes.exposure import Exposure
from stallbench.processes.role import Stop
from stallbench.queues.sql_session import SqlSession, open_session
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventLog, format_error
from stallbench.records.nanoseconds import NS_PER_S

TABLE = "stallbench_bystander"
"""The table that it queries. It is none of the queue's."""
ROWS = 1_000
RATE = 20
"""Queries per second, reads and writes in turn: a few hundred in a phase, and less than 1 % of a core."""
_READ = f"SELECT value FROM {TABLE} WHERE id = ?"
_WRITE = f"UPDATE {TABLE} SET value = value + 1 WHERE id = ?"
_PAUSE_S = 0.2
"""After a query that failed."""
_LAST_ANSWER_S = 1.0
"""How long the query of the moment may take when the bystander is asked to stop."""


class BystanderDocument(BaseModel):
    """The JSON document that a bystander is started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="names the process in the records and to the server")
    endpoint: Endpoint = Field(description="how to connect to the server, as the clients of the queue do")
    events: Path = Field(description="the event log to append to; its folder exists")
    rate: float = Field(default=RATE, ge=1, description="queries per second")
    seed: int = Field(description="seed of the choice of rows")
    expose: Exposure | None = Field(
        default=None, description="address at which Prometheus can scrape the process; none if not given"
    )


class Bystander:
    """One client, with one connection at a time."""

    def __init__(
        self, document: BystanderDocument, log: EventLog, observe: Callable[[Event, int | None, str], None] | None = None
    ) -> None:
        """Connect later. ``observe`` receives what is recorded, with the time since a query was due."""
        self._endpoint = document.endpoint
        self._name = document.name
        self._period_ns = round(NS_PER_S / document.rate)
        self._log = log
        self._observe = observe
        self._driver = driver_of(document.endpoint.engine)
        self._random = random.Random(document.seed)
        self._connection: Any = None
        self._session: SqlSession | None = None
        self._ended = Flag()
        self._number = 0
        """Of the next query, or of the one that is not answered yet."""
        self._began_mono_ns = self._began_ns = 0

    def connect(self) -> bool:
        """Connect, and return whether that succeeded; a refusal is recorded."""
        try:
            self._connection = self._driver.connect(self._endpoint, self._name)
            self._session = open_session(self._connection)
        except self._driver.errors as error:
            self._record_failure(error, "connect")
            return False
        return True

    def run(self, stop: Stop) -> None:
        """Query until asked to stop. Raises `OSError` if an event cannot be written."""
        failures: list[Exception] = []
        thread = Thread(target=self._run, args=(stop, failures), name="queries", daemon=True)
        thread.start()
        stop.wait()
        ended_ns = time.time_ns()
        self._ended.set()
        thread.join(_LAST_ANSWER_S)
        if thread.is_alive() and self._connection is not None:  # the server does not answer
            self._driver.abort(self._connection)
            thread.join(_LAST_ANSWER_S)
        if failures:
            raise failures[0]
        while (due_ns := self._due_ns()) <= ended_ns:
            self._record(Event.QUERY_UNANSWERED, due_ns)
            self._number += 1

    def _run(self, stop: Stop, failures: list[Exception]) -> None:
        self._began_mono_ns, self._began_ns = time.monotonic_ns(), time.time_ns()
        try:
            while not self._ended.is_set():
                self._sleep_until_due()
                if self._ended.is_set() or not self._answer():
                    break
                self._number += 1
        except Exception as error:  # noqa: BLE001 - raised by `run`, in the main thread
            failures.append(error)
            stop.ask()
        self._close()

    def _sleep_until_due(self) -> None:
        """Sleep, which takes half the processor time of a wait for the end."""
        left_ns = self._began_mono_ns + self._passed_ns() - time.monotonic_ns()
        if left_ns > 0:
            time.sleep(left_ns / NS_PER_S)

    def _passed_ns(self) -> int:
        """Return how long after the first query the next one is due."""
        return self._number * self._period_ns

    def _due_ns(self) -> int:
        """Return when the next query is due, by the wall clock."""
        return self._began_ns + self._passed_ns()

    def _answer(self) -> bool:
        """Send the next query until it is answered; returns false if it was not when the bystander was asked to stop."""
        row = self._random.randrange(ROWS)
        while True:
            if (self._session is not None or self.connect()) and self._send(row):
                return True
            if self._ended.wait(_PAUSE_S):
                return False

    def _send(self, row: int) -> bool:
        """Read or write a row, and return whether the server did it; an error is recorded and ends the connection."""
        assert self._session is not None
        began_ns = time.monotonic_ns()
        writes = self._number % 2 == 1
        try:
            self._session.run(_WRITE if writes else _READ, row)
        except self._driver.errors as error:
            self._record_failure(error, "write" if writes else "read", time.monotonic_ns() - began_ns)
            self._close()
            return False
        self._record(Event.QUERY_ANSWERED, self._due_ns(), time.monotonic_ns() - began_ns)
        return True

    def _record(self, event: Event, due_ns: int, duration_ns: int | None = None) -> None:
        self._log.write(event, intended_ns=due_ns, duration_ns=duration_ns)
        if self._observe is not None:
            self._observe(event, time.time_ns() - due_ns, "")

    def _record_failure(self, error: Exception, operation: str, duration_ns: int | None = None) -> None:
        detail = format_error(self._driver.code(error), operation, self._driver.describe(error))
        self._log.write(Event.QUERY_FAILED, duration_ns=duration_ns, detail=detail)
        if self._observe is not None:
            self._observe(Event.QUERY_FAILED, duration_ns, detail)

    def _close(self) -> None:
        if self._connection is not None:
            self._driver.close(self._connection)
        self._connection = self._session = None
