"""The scheduler's loop: its turn, a pause, its turn. What a turn is, is the queue's business."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stallbench.drivers import driver_of, loaded_errors
from stallbench.exposition import Exposure
from stallbench.open_queue import close_queue, open_queue
from stallbench.queues import Queue
from stallbench.reconnection import reconnect
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventLog
from stallbench.role import Stop

_PAUSE_AFTER_ERROR_S = 0.2


class SchedulerDocument(BaseModel):
    """The JSON document that a scheduler is started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="names the process in the records and to the server")
    endpoint: Endpoint
    queue: str = Field(description="kind of the queue under test")
    queue_options: dict[str, object] = {}
    events: Path = Field(description="the event log to append to; its folder exists")
    expose: Exposure | None = Field(default=None, description="where to answer Prometheus; nowhere if not given")


class Scheduler:
    """Takes its turn again and again; only its errors are recorded."""

    def __init__(self, document: SchedulerDocument, log: EventLog, stop: Stop) -> None:
        """Connect; raises an error of the engine's driver when the server cannot be reached."""
        self._document = document
        self._driver = driver_of(document.endpoint.engine)
        self._log = log
        self._stop = stop
        self._queue: Queue[Any] = self._open()

    def run(self) -> None:
        """Go on until asked to stop; raises `CannotGoOnError` when the server stays away."""
        while not self._stop.asked:
            began_ns = time.monotonic_ns()
            try:
                pause_s = self._queue.schedule()
            except loaded_errors() as error:
                self._record(error, "schedule", time.monotonic_ns() - began_ns)
                self._make_fit_again(error)
                pause_s = _PAUSE_AFTER_ERROR_S
            self._stop.wait(pause_s)

    def _make_fit_again(self, error: Exception) -> None:
        try:
            if self._queue.recover(error):
                return
        except loaded_errors() as further:
            self._record(further, "recover", 0)
        close_queue(self._queue, self._document.endpoint.engine)
        self._queue = reconnect(self._open, self._stop)

    def _open(self) -> Queue[Any]:
        document = self._document
        return open_queue(document.queue, document.queue_options, document.endpoint, document.name)

    def _record(self, error: Exception, move: str, duration_ns: int) -> None:
        detail = f"{self._driver.code(error)} in {move}: {self._driver.tell(error)}"
        self._log.write(Event.ERROR, duration_ns=duration_ns, detail=detail)
