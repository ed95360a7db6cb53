"""A process's connection to the queue under test: opens it, recovers it after an error, and records errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stallbench.engines import driver_of, loaded_errors
from stallbench.engines.reconnection import reconnect
from stallbench.processes.exposure import Exposure
from stallbench.processes.role import Stop
from stallbench.queues import Queue, find_queue
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventLog, format_error


class ClientDocument(BaseModel):
    """The JSON document of every process that uses the queue."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="names the process in the records and to the server")
    endpoint: Endpoint = Field(description="how to connect to the server that holds the queue")
    queue: str = Field(description="kind of the queue under test")
    queue_options: dict[str, object] = Field(default={}, description="options of the queue, as in a scenario")
    events: Path = Field(description="the event log to append to; its folder exists")
    job_faults: Path | None = Field(default=None, description="folder of the active job faults; none if not given")
    expose: Exposure | None = Field(
        default=None, description="address at which Prometheus can scrape the process; none if not given"
    )


def _prepare_nothing(queue: Queue[Any]) -> None:
    """Prepare nothing."""


class QueueClient:
    """The queue on one connection at a time."""

    def __init__(
        self, document: ClientDocument, log: EventLog, stop: Stop, *, prepare: Callable[[Queue[Any]], None] = _prepare_nothing
    ) -> None:
        """Connect. ``prepare`` is called with the queue each time that it is opened.

        Raises an error of the engine's driver, after it was recorded.
        """
        self._document = document
        self._log = log
        self._stop = stop
        self._prepare = prepare
        self._driver = driver_of(document.endpoint.engine)
        self.queue = self._open_recorded()

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What an operation raises when a server of the queue refuses it or is gone."""
        return loaded_errors()

    def recover_connection(self, error: Exception) -> None:
        """After one of `errors`, let the queue recover its connection by its own policy; if it does not, open another connection.

        Either way no transaction and no lock of the failed operation remains. Raises `CannotContinueError` if the server cannot be
        reached again.
        """
        try:
            if self.queue.recover(error):
                return
        except self.errors as further:
            self.record_error(further, "recover")
        self.close()
        self.queue = reconnect(self._open, self._stop, lambda refusal: self.record_error(refusal, "connect"))

    def reopen(self) -> None:
        """Close the connection, if it is open, and open another one. Raises an error of the driver, after it was recorded."""
        self.close()
        self.queue = self._open_recorded()

    def record_error(
        self,
        error: BaseException,
        operation: str,
        *,
        job_id: int | None = None,
        attempt: int | None = None,
        intended_ns: int | None = None,
        duration_ns: int | None = None,
    ) -> None:
        """Record that an operation failed with an error."""
        self._log.write(
            Event.ERROR,
            job_id=job_id,
            attempt=attempt,
            intended_ns=intended_ns,
            duration_ns=duration_ns,
            detail=self.describe(error, operation),
        )

    def describe(self, error: BaseException, operation: str) -> str:
        """Return an error in one line, its kind first."""
        if not isinstance(error, Exception):
            return format_error(type(error).__name__, operation, "interrupted")
        return format_error(self._driver.code(error), operation, self._driver.describe(error))

    def close(self) -> None:
        """Close its connections, in any state."""
        close_queue(self.queue, self._document.endpoint.engine)

    def _open_recorded(self) -> Queue[Any]:
        try:
            return self._open()
        except self.errors as refusal:
            self.record_error(refusal, "connect")
            raise

    def _open(self) -> Queue[Any]:
        document = self._document
        queue = open_queue(document.queue, document.queue_options, document.endpoint, document.name)
        try:
            self._prepare(queue)
        except BaseException:
            close_queue(queue, document.endpoint.engine)
            raise
        return queue


def open_queue(kind: str, options: Mapping[str, object], endpoint: Endpoint, name: str) -> Queue[Any]:
    """Connect as the process ``name`` and return the queue of that kind. Kind and options were validated with the scenario."""
    queue_type = find_queue(kind)
    driver = driver_of(endpoint.engine)
    queue = queue_type(driver.connect(endpoint, name), queue_type.options_type.model_validate(options))
    queue.introduce(endpoint, name)
    if queue.second_engine is not None:
        assert endpoint.second is not None, f"{kind} needs another server, {queue.second_engine}, beside {endpoint.engine}"
        try:
            queue.attach(driver_of(queue.second_engine).connect(endpoint.second, name))
        except BaseException:
            driver.close(queue.connection)
            raise
    return queue


def close_queue(queue: Queue[Any], engine: str) -> None:
    """Close it and its connections, in any state. ``engine``: that of its primary."""
    queue.close()
    driver_of(engine).close(queue.connection)
    if queue.second_engine is not None:
        driver_of(queue.second_engine).close(queue.second)


@contextmanager
def opened_queue(kind: str, options: Mapping[str, object], endpoint: Endpoint, name: str) -> Iterator[Queue[Any]]:
    """Open the queue as `open_queue` does, for as long as the block lasts."""
    queue = open_queue(kind, options, endpoint, name)
    try:
        yield queue
    finally:
        close_queue(queue, endpoint.engine)
