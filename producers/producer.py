"""The producer's loop: wait until a job is due, and enqueue it."""

from __future__ import annotations

import time
from contextlib import suppress

from pydantic import Field

from producers.enqueuer import Enqueuer, EnqueuerDocument
from producers.schedule import Schedule
from stallbench.processes.role import Stop
from stallbench.queues import RefusedError
from stallbench.records.events import ENQUEUE, EventLog
from stallbench.records.nanoseconds import NS_PER_S

_LONGEST_NAP_S = 0.2
_BYTES_PER_LOAD = 4_000_000
"""Payload bytes that one call of `load` contains at most: a statement must fit into MariaDB's packet limit, 16 MB."""


class ProducerDocument(EnqueuerDocument):
    """The JSON document that a producer is started with."""

    rate: float = Field(ge=0, description="jobs per second of this producer; 0 if it only fills the queue")
    backlog: int = Field(default=0, ge=0, description="jobs to enqueue before anything else, as fast as the queue takes them")
    offset_s: float = Field(default=0, ge=0, description="time from the start until the first job is due")
    max_batch: int = Field(default=1, ge=1, description="jobs that are due may share one enqueue call, up to this many")
    linger_s: float = Field(default=0, ge=0, description="how long a due job may wait for others to share its call")


class Producer:
    """Enqueues by an open-loop schedule that starts when `run` is called."""

    def __init__(self, document: ProducerDocument, log: EventLog, stop: Stop) -> None:
        """Connect. Raises an error of the engine's driver when the server cannot be reached."""
        self._document = document
        self._log = log
        self._stop = stop
        self._schedule = Schedule(rate=document.rate, offset_s=document.offset_s) if document.rate else None
        self._enqueuer = Enqueuer(document, log, stop)

    def fill(self) -> None:
        """Enqueue the backlog. Raises an error of the driver if the queue does not take all of it."""
        client = self._enqueuer.client
        at_once = max(1, min(client.queue.jobs_per_load, _BYTES_PER_LOAD // self._document.payload_bytes))
        for begin in range(0, self._document.backlog, at_once):
            batch = range(begin, min(begin + at_once, self._document.backlog))
            jobs = self._enqueuer.make_jobs(batch)
            wanted_ns, began_ns = time.time_ns(), time.monotonic_ns()
            try:
                ids = client.queue.load(jobs)
            except RefusedError:
                # Enqueue one by one, so that only the jobs that exceed the limit are refused.
                for n in batch:
                    with suppress(RefusedError):
                        self._enqueuer.enqueue(range(n, n + 1), [wanted_ns])
                continue
            except client.errors as error:
                client.record_error(error, ENQUEUE, intended_ns=wanted_ns)
                raise
            duration_ns = time.monotonic_ns() - began_ns
            self._log.write_enqueued(ids, client.queue.preconditions, intended_ns=wanted_ns, duration_ns=duration_ns)
            if self._stop.asked:
                return

    def run(self) -> None:
        """Enqueue until asked to stop, as `Enqueuer.enqueue` does. Raises `CannotContinueError` when the server stays unreachable."""
        schedule = self._schedule
        if schedule is None:
            self._stop.wait()
            return
        start_mono_ns, start_wall_ns = time.monotonic_ns(), time.time_ns()
        sent = 0
        while not self._stop.asked:
            elapsed_ns = time.monotonic_ns() - start_mono_ns
            call_ns = schedule.call_ns(sent, max_batch=self._document.max_batch, linger_s=self._document.linger_s)
            if elapsed_ns < call_ns:
                time.sleep(min((call_ns - elapsed_ns) / NS_PER_S, _LONGEST_NAP_S))
                continue
            wanted = min(schedule.due_count(elapsed_ns) - sent, self._document.max_batch)
            batch = range(sent, sent + wanted)
            sent += wanted
            try:
                self._enqueuer.enqueue(batch, [start_wall_ns + schedule.due_ns(n) for n in batch])
            except RefusedError:
                continue
            except self._enqueuer.client.errors as error:
                if not self._document.connection_per_call:  # else the next call opens another one
                    self._enqueuer.client.recover_connection(error)
