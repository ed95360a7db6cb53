"""The scheduler's loop: one iteration, a pause, the next iteration. The queue defines what an iteration does."""

from __future__ import annotations

import time

from stallbench.injection.crashes import Crashes
from stallbench.injection.job_faults import JobFaults
from stallbench.processes.role import Stop
from stallbench.queues.crash_points import CrashPoint
from stallbench.queues.queue_client import ClientDocument, QueueClient
from stallbench.records.events import EventLog

_PAUSE_AFTER_ERROR_S = 0.2


class SchedulerDocument(ClientDocument):
    """The JSON document that a scheduler is started with."""


class Scheduler:
    """Runs one iteration after the other; only its errors are recorded."""

    def __init__(self, document: SchedulerDocument, log: EventLog, stop: Stop) -> None:
        """Connect. Raises an error of the engine's driver when the server cannot be reached."""
        self._stop = stop
        self._job_faults = JobFaults(document.job_faults, document.name, "scheduler")
        self._crashes = Crashes(self._job_faults)
        self._client = QueueClient(document, log, stop)

    def run(self) -> None:
        """Run until asked to stop. Raises `CannotContinueError` when the server stays unreachable."""
        while not self._stop.asked:
            began_ns = time.monotonic_ns()
            self._job_faults.read_active()
            queue = self._client.queue
            try:
                pause_s = self._crashes.crash_point_around(CrashPoint.BETWEEN_STEPS, queue, queue.schedule)
            except self._client.errors as error:
                self._client.record_error(error, "schedule", duration_ns=time.monotonic_ns() - began_ns)
                self._client.recover_connection(error)
                pause_s = _PAUSE_AFTER_ERROR_S
            self._stop.wait(pause_s)
