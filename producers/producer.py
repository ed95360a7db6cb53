"""The producer's loop: wait until a job is wanted, enqueue it, record it with the time at which it was wanted."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from producers.schedule import Schedule
from stallbench.drivers import driver_of, loaded_errors
from stallbench.exposition import Exposure
from stallbench.open_queue import close_queue, open_queue
from stallbench.queues import NewJob, Queue, RefusedError
from stallbench.reconnection import reconnect
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventLog
from stallbench.role import Stop

_LONGEST_NAP_S = 0.2
_JOBS_AT_ONCE, _BYTES_AT_ONCE = 10_000, 4_000_000
"""What a backlog is loaded by. The bytes are those of payloads: a statement has to fit into what MariaDB takes at once, 16 MB."""


class ProducerDocument(BaseModel):
    """The JSON document that a producer is started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="names the process in the records and to the server")
    endpoint: Endpoint
    queue: str = Field(description="kind of the queue under test")
    queue_options: dict[str, object] = {}
    events: Path = Field(description="the event log to append to; its folder exists")
    expose: Exposure | None = Field(default=None, description="where to answer Prometheus; nowhere if not given")
    rate: float = Field(ge=0, description="jobs a second, of this producer alone; 0 if it only fills the queue")
    backlog: int = Field(default=0, ge=0, description="jobs to enqueue before anything else, as fast as the queue takes them")
    offset_s: float = Field(default=0, ge=0, description="when the first job is wanted, after the start")
    payload_bytes: int = Field(default=256, ge=16)
    max_batch: int = Field(default=1, ge=1, description="jobs that are due may share one enqueue call, up to this many")
    seed: int = Field(default=1, description="of the payload's filling, and of the queue's own choices")
    mark: str | None = Field(default=None, description="what a fault knows these jobs by")


class Producer:
    """Enqueues by an open-loop schedule that starts when `run` is called."""

    def __init__(self, document: ProducerDocument, log: EventLog, stop: Stop) -> None:
        """Connect; raises an error of the engine's driver when the server cannot be reached."""
        self._document = document
        self._driver = driver_of(document.endpoint.engine)
        self._log = log
        self._stop = stop
        self._schedule = Schedule(rate=document.rate, offset_s=document.offset_s) if document.rate else None
        self._random = random.Random(document.seed)
        self._filling = self._random.randbytes(document.payload_bytes).hex()
        self._queue: Queue[Any] = self._open()

    def fill(self) -> None:
        """Enqueue the backlog; raises an error of the driver if the queue does not take it: half a backlog is none."""
        at_once = max(1, min(_JOBS_AT_ONCE, _BYTES_AT_ONCE // self._document.payload_bytes))
        for begin in range(0, self._document.backlog, at_once):
            batch = range(begin, min(begin + at_once, self._document.backlog))
            jobs = [NewJob(payload=self._payload(n)) for n in batch]
            wanted_ns, began_ns = time.time_ns(), time.monotonic_ns()
            try:
                ids = self._queue.load(jobs)
            except RefusedError:
                # What still fits gets in: only the enqueue that would exceed the limit is refused.
                for n in batch:
                    self._enqueue(range(n, n + 1), [wanted_ns])
                continue
            except loaded_errors() as error:
                self._log.write(Event.ERROR, intended_ns=wanted_ns, detail=self._tell(error, "enqueue"))
                raise
            duration_ns = time.monotonic_ns() - began_ns
            self._log.write_enqueued(ids, self._queue.conditions, intended_ns=wanted_ns, duration_ns=duration_ns)
            if self._stop.asked:
                return

    def run(self) -> None:
        """Enqueue until asked to stop.

        A job whose enqueue raised is recorded as an error and not tried again: whether it got in is not known, and a second
        copy would be a duplicate of the bench's making. One that the queue refused, being full, is recorded as refused: that it did not
        get in is known. Raises `CannotGoOnError` when the server stays away.
        """
        schedule = self._schedule
        if schedule is None:
            self._stop.wait()
            return
        start_mono_ns, start_wall_ns = time.monotonic_ns(), time.time_ns()
        sent = 0
        while not self._stop.asked:
            elapsed_ns = time.monotonic_ns() - start_mono_ns
            wanted = min(schedule.due_count(elapsed_ns) - sent, self._document.max_batch)
            if wanted <= 0:
                time.sleep(min((schedule.due_ns(sent) - elapsed_ns) / 1e9, _LONGEST_NAP_S))
                continue
            batch = range(sent, sent + wanted)
            sent += wanted
            try:
                self._enqueue(batch, [start_wall_ns + schedule.due_ns(n) for n in batch])
            except loaded_errors() as error:
                self._make_fit_again(error)

    def _make_fit_again(self, error: Exception) -> None:
        try:
            if self._queue.recover(error):
                return
        except loaded_errors() as further:
            self._log.write(Event.ERROR, detail=self._tell(further, "recover"))
        close_queue(self._queue, self._document.endpoint.engine)
        self._queue = reconnect(self._open, self._stop, self._record_refusal)

    def _record_refusal(self, error: Exception) -> None:
        self._log.write(Event.ERROR, detail=self._tell(error, "connect"))

    def _open(self) -> Queue[Any]:
        document = self._document
        queue = open_queue(document.queue, document.queue_options, document.endpoint, document.name)
        queue.random = self._random
        return queue

    def _enqueue(self, batch: range, wanted_ns: Sequence[int]) -> None:
        jobs = [NewJob(payload=self._payload(n)) for n in batch]
        began_ns = time.monotonic_ns()
        try:
            ids = self._queue.enqueue(jobs)
        except RefusedError as refused:
            self._record_not_in(Event.REFUSED, wanted_ns, began_ns, str(refused))
            return
        except loaded_errors() as error:
            self._record_not_in(Event.ERROR, wanted_ns, began_ns, self._tell(error, "enqueue"))
            raise
        duration_ns = time.monotonic_ns() - began_ns
        conditions = self._queue.conditions
        for intended_ns, job_id in zip(wanted_ns, ids, strict=True):
            detail = str(conditions.get(job_id, ""))
            self._log.write(Event.ENQUEUED, job_id=job_id, intended_ns=intended_ns, duration_ns=duration_ns, detail=detail)

    def _record_not_in(self, event: Event, wanted_ns: Sequence[int], began_ns: int, detail: str) -> None:
        duration_ns = time.monotonic_ns() - began_ns
        for intended_ns in wanted_ns:
            self._log.write(event, intended_ns=intended_ns, duration_ns=duration_ns, detail=detail)

    def _tell(self, error: Exception, move: str) -> str:
        return f"{self._driver.code(error)} in {move}: {self._driver.tell(error)}"

    def _payload(self, n: int) -> str:
        mark = f'"mark":"{self._document.mark}",' if self._document.mark else ""
        opening = f'{{"n":{n},{mark}"filling":"'
        return f'{opening}{self._filling[: max(0, self._document.payload_bytes - len(opening) - 2)]}"}}'
