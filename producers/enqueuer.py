"""Enqueues scheduled jobs for a producer, and records each with the time at which it was due."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Literal

from pydantic import Field

from stallbench.engines.error_kinds import CONNECT
from stallbench.injection.crashes import Crashes
from stallbench.injection.job_faults import JobFaults
from stallbench.processes.role import Stop
from stallbench.queues import DEFAULT_QUEUE, NewJob, Queue, RefusedError
from stallbench.queues.crash_points import CrashPoint
from stallbench.queues.load_bounds import LEAST_PAYLOAD_BYTES
from stallbench.queues.queue_client import ClientDocument, QueueClient
from stallbench.records.events import ENQUEUE, Event, EventLog
from stallbench.records.nanoseconds import NS_PER_S

EnqueueOperation = Callable[[Sequence[NewJob]], Sequence[int]]
_WORDS = (
    "order",
    "customer",
    "address",
    "invoice",
    "shipping",
    "street",
    "city",
    "country",
    "total",
    "amount",
    "currency",
    "status",
)


class EnqueuerDocument(ClientDocument):
    """The fields that the documents of all producers have."""

    payload_bytes: int = Field(default=256, ge=LEAST_PAYLOAD_BYTES, description="size of a job's payload")
    payload_content: Literal["random", "text"] = Field(
        default="random", description="what fills a payload: random hexadecimal digits, or words"
    )
    seed: int = Field(default=1, description="seed of the random payload and of the queue's random choices")
    mark: str | None = Field(default=None, description="mark by which a fault recognises these jobs")
    job_queue: str = Field(default=DEFAULT_QUEUE, description="queue, or tenant, that the jobs belong to")
    connection_per_call: bool = Field(
        default=False, description="open a connection for each enqueue call, and close it after the call; else keep one"
    )
    key_every_s: float | None = Field(
        default=None,
        gt=0,
        description="jobs that are due in the same interval of so many seconds have the same key; none: they have no key",
    )


class Enqueuer:
    """Enqueues and records, on one connection or on a new one for each call."""

    def __init__(self, document: EnqueuerDocument, log: EventLog, stop: Stop) -> None:
        """Connect. Raises an error of the engine's driver when the server cannot be reached."""
        self._log = log
        self._mark = f'"mark":"{document.mark}",' if document.mark else ""
        self._payload_bytes = document.payload_bytes
        self._queue = document.job_queue
        self._connects_each_time = document.connection_per_call
        self._key_every_ns = round((document.key_every_s or 0) * NS_PER_S)
        self._random = random.Random(document.seed)
        if document.payload_content == "text":
            self._filling = " ".join(self._random.choices(_WORDS, k=document.payload_bytes // 2))
        else:
            self._filling = self._random.randbytes(document.payload_bytes).hex()
        self._job_faults = JobFaults(document.job_faults, document.name, "producer")
        self._crashes = Crashes(self._job_faults)
        self.client = QueueClient(document, log, stop, prepare=self._prepare)
        """The connection to the queue, with its error handling."""
        self.duration_ns = 0
        """Duration of the last call, successful or not."""

    def enqueue(
        self,
        numbers: range,
        wanted_ns: Sequence[int],
        *,
        by: Callable[[EnqueueOperation, Sequence[NewJob]], Sequence[int]] | None = None,
    ) -> None:
        """Enqueue the jobs of ``numbers`` in one call, made by ``by`` if given, and record them.

        After an error, the jobs are recorded as errors and not retried: the outcome is unknown, and a second copy would be a duplicate made by
        the bench. The record has the job's id if the queue knew it before (`Queue.unconfirmed_ids`). Jobs that a full queue refused are recorded as
        refused: they are not in the queue. The queue's error is raised again after it was recorded. If each call has a connection of its own and
        none can be opened, the jobs were not sent: they are refused, too.
        """
        self._job_faults.read_active()
        if not self._connects_each_time:
            self._enqueue(numbers, wanted_ns, by)
            return
        self._connect(wanted_ns)
        try:
            self._enqueue(numbers, wanted_ns, by)
        finally:
            self.client.close()

    def _connect(self, wanted_ns: Sequence[int]) -> None:
        began_ns = time.monotonic_ns()
        try:
            self.client.reopen()
        except self.client.errors as error:
            self.duration_ns = time.monotonic_ns() - began_ns
            self._record_refused(wanted_ns, f"no connection: {self.client.describe(error, CONNECT)}")
            raise RefusedError("there is no connection") from error

    def _record_refused(self, wanted_ns: Sequence[int], why: str) -> None:
        for intended_ns in wanted_ns:
            self._log.write(Event.REFUSED, intended_ns=intended_ns, duration_ns=self.duration_ns, detail=why)

    def _enqueue(
        self,
        numbers: range,
        wanted_ns: Sequence[int],
        by: Callable[[EnqueueOperation, Sequence[NewJob]], Sequence[int]] | None,
    ) -> None:
        jobs = self.make_jobs(numbers, wanted_ns)
        queue = self.client.queue
        began_ns = time.monotonic_ns()
        try:
            if by:
                ids = by(queue.enqueue, jobs)
            else:
                point = CrashPoint.BEFORE_ENQUEUE_ACKNOWLEDGED
                ids = self._crashes.crash_point_around(point, queue, lambda: queue.enqueue(jobs))
        except RefusedError as refused:
            self.duration_ns = time.monotonic_ns() - began_ns
            self._record_refused(wanted_ns, str(refused))
            raise
        except BaseException as error:
            self.duration_ns = duration_ns = time.monotonic_ns() - began_ns
            for intended_ns, job_id in zip_longest(wanted_ns, queue.unconfirmed_ids):
                self.client.record_error(error, ENQUEUE, job_id=job_id, intended_ns=intended_ns, duration_ns=duration_ns)
            raise
        self.duration_ns = duration_ns = time.monotonic_ns() - began_ns
        preconditions = queue.preconditions
        for intended_ns, job_id in zip(wanted_ns, ids, strict=True):
            detail = str(preconditions.get(job_id, ""))
            self._log.write(Event.ENQUEUED, job_id=job_id, intended_ns=intended_ns, duration_ns=duration_ns, detail=detail)
        self._crashes.passes(CrashPoint.AFTER_ENQUEUE_ACKNOWLEDGED, ids[-1] if ids else None)

    def make_jobs(self, numbers: range, wanted_ns: Sequence[int] = ()) -> list[NewJob]:
        """Return the jobs of ``numbers``, each with a payload of the wanted size. ``wanted_ns``: when each is due; jobs without it have no key."""
        if not self._key_every_ns or not wanted_ns:
            return [NewJob(payload=self._payload(n), queue=self._queue) for n in numbers]
        return [
            NewJob(payload=self._payload(n), queue=self._queue, key=str(due_ns // self._key_every_ns))
            for n, due_ns in zip(numbers, wanted_ns, strict=True)
        ]

    def _payload(self, n: int) -> str:
        opening = f'{{"n":{n},{self._mark}"filling":"'
        return f'{opening}{self._filling[: max(0, self._payload_bytes - len(opening) - 2)]}"}}'

    def _prepare(self, queue: Queue[Any]) -> None:
        queue.random = self._random
        queue.prepare_to_enqueue()
