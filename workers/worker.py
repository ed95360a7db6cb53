"""The worker's loop: claim, work, complete. Its event log records what it did."""

from __future__ import annotations

import random
import time
from typing import Any

from pydantic import Field

from stallbench.injection.crashes import Crashes
from stallbench.injection.job_faults import JobFaults
from stallbench.processes.role import Stop
from stallbench.queues import Claim, ClaimExpiredError, LostRaceError, Queue
from stallbench.queues.crash_points import CrashPoint
from stallbench.queues.queue_client import ClientDocument, QueueClient
from stallbench.records.events import Event, EventLog
from workers.work import Work, WorkFailedError

_FAILURES_WITHOUT_PAUSE = 5
"""Consecutive rounds that may fail without a pause. A transaction that was rolled back may be retried at once, but a server
that refuses everything must not be flooded with calls, nor the event log with errors."""


_MOST_DOUBLINGS = 30
"""Of the pause between claims: enough for any limit, and no overflow."""


class WorkerDocument(ClientDocument):
    """The JSON document that a worker is started with."""

    work_s: float = Field(default=0.001, ge=0, description="duration of a job, in seconds")
    poll_s: float = Field(
        default=0.02,
        gt=0,
        description="mean pause in seconds after a claim found no job or failed repeatedly; drawn from 0.5 to 1.5 times this",
    )
    max_poll_s: float | None = Field(
        default=None,
        gt=0,
        description="back-off: the mean pause doubles after each claim in a row that found no job, up to this; none: it stays the same",
    )
    seed: int = Field(default=1, description="seed of the random pauses and of the queue's random choices")
    wait_for_go: bool = Field(default=False, description="claim no job before SIGUSR1 arrives")


class Worker:
    """Claims one job at a time, executes it, and completes or fails it."""

    def __init__(self, document: WorkerDocument, log: EventLog, stop: Stop) -> None:
        """Connect. Raises an error of the engine's driver when the server cannot be reached."""
        self._document = document
        self._log = log
        self._stop = stop
        self._random = random.Random(document.seed)
        self._current: Claim | None = None
        self._job_faults = JobFaults(document.job_faults, document.name)
        self._crashes = Crashes(self._job_faults)
        self._clock_offset_s = 0.0
        self._empty_claims = 0
        self._work = Work(document.work_s, self._job_faults, self._crashes, self._random)
        self._client = QueueClient(document, log, stop, prepare=self._prepare)

    def run(self) -> None:
        """Claim and complete jobs until asked to stop. The current job is finished first.

        After an error of the driver it continues as `QueueClient.recover_connection` says. Raises `CannotContinueError` when the server stays unreachable.
        """
        failures = 0
        while not self._stop.asked:
            try:
                self._set_clock()
                self._current = self._claim()
                if self._current is not None:
                    self._finish(self._current)
                failures = 0
            except self._client.errors as error:
                self._client.recover_connection(error)
                failures += 1
                if failures > _FAILURES_WITHOUT_PAUSE:
                    self._pause()
            finally:
                self._current = None
        self._leave()

    def _leave(self) -> None:
        try:
            self._client.queue.deregister()
        except self._client.errors as error:
            self._record_error(error, "leave", None, 0)

    def _prepare(self, queue: Queue[Any]) -> None:
        queue.random = self._random
        queue.on_retry = self._record_retry
        queue.clock = lambda: time.time() + self._clock_offset_s

    def _set_clock(self) -> None:
        active = self._job_faults.read_active()
        if not active and not self._clock_offset_s:
            return
        offsets = {name: job_fault for name, job_fault in active.items() if job_fault.clock_offset_s}
        self._clock_offset_s = sum(job_fault.clock_offset_s for job_fault in offsets.values())
        self._work.report(offsets)

    def _claim(self) -> Claim | None:
        began_ns = time.monotonic_ns()
        try:
            queue = self._client.queue
            claims = self._crashes.crash_point_around(CrashPoint.BEFORE_CLAIM_ACKNOWLEDGED, queue, queue.claim)
        except LostRaceError as lost:
            self._log.write(Event.LOST_RACE, job_id=lost.job_id, duration_ns=time.monotonic_ns() - began_ns)
            return None
        except self._client.errors as error:
            self._record_error(error, "claim", None, time.monotonic_ns() - began_ns)
            raise
        duration_ns = time.monotonic_ns() - began_ns
        if not claims:
            self._log.write(Event.EMPTY, duration_ns=duration_ns)
            self._wait_for_jobs()
            return None
        self._empty_claims = 0
        claim = claims[0]
        self._log.write(Event.CLAIMED, job_id=claim.job_id, attempt=claim.attempt, duration_ns=duration_ns)
        self._crashes.passes(CrashPoint.AFTER_CLAIM, claim.job_id)
        return claim

    def _wait_for_jobs(self) -> None:
        pause_s = self._document.poll_s
        if self._document.max_poll_s is not None:
            pause_s = min(pause_s * 2.0 ** min(self._empty_claims, _MOST_DOUBLINGS), max(pause_s, self._document.max_poll_s))
        self._empty_claims += 1
        if self._client.queue.wait_for_jobs(pause_s * self._random.uniform(0.5, 1.5), self._stop.wait):
            self._empty_claims = 0

    def _pause(self) -> None:
        self._stop.wait(self._document.poll_s * self._random.uniform(0.5, 1.5))

    def _finish(self, claim: Claim) -> None:
        began_ns = time.monotonic_ns()
        try:
            self._work.do(claim)
        except WorkFailedError as failure:
            self._fail(claim, failure)
            return
        ended_ns = time.monotonic_ns()
        self._log.write(Event.WORKED, job_id=claim.job_id, attempt=claim.attempt, duration_ns=ended_ns - began_ns)
        self._crashes.passes(CrashPoint.BEFORE_COMPLETION, claim.job_id)
        queue, point = self._client.queue, CrashPoint.BEFORE_COMPLETION_ACKNOWLEDGED
        began_ns = time.monotonic_ns()
        try:
            self._crashes.crash_point_around(point, queue, lambda: queue.complete(claim), claim.job_id)
        except ClaimExpiredError:
            self._log.write(Event.EXPIRED, job_id=claim.job_id, attempt=claim.attempt, duration_ns=time.monotonic_ns() - began_ns)
            return
        except self._client.errors as error:
            self._record_error(error, "complete", claim, time.monotonic_ns() - began_ns)
            raise
        duration_ns = time.monotonic_ns() - began_ns
        self._log.write(Event.COMPLETED, job_id=claim.job_id, attempt=claim.attempt, duration_ns=duration_ns)
        self._crashes.passes(CrashPoint.AFTER_COMPLETION_ACKNOWLEDGED, claim.job_id)

    def _fail(self, claim: Claim, failure: WorkFailedError) -> None:
        began_ns = time.monotonic_ns()
        try:
            self._client.queue.fail(claim, str(failure))
        except self._client.errors as error:
            self._record_error(error, "fail", claim, time.monotonic_ns() - began_ns)
            raise
        duration_ns = time.monotonic_ns() - began_ns
        self._log.write(
            Event.FAILED, job_id=claim.job_id, attempt=claim.attempt, duration_ns=duration_ns, detail=f"WorkFailed: {failure}"
        )

    def _record_error(self, error: Exception, operation: str, claim: Claim | None, duration_ns: int) -> None:
        self._client.record_error(
            error,
            operation,
            job_id=claim.job_id if claim else None,
            attempt=claim.attempt if claim else None,
            duration_ns=duration_ns,
        )

    def _record_retry(self, error: Exception) -> None:
        """Record an error that the queue answers by retrying; if there is a current job, the error is one of its completion."""
        claim = self._current
        self._log.write(
            Event.RETRIED,
            job_id=claim.job_id if claim else None,
            attempt=claim.attempt if claim else None,
            detail=self._client.describe(error, "complete" if claim else "claim"),
        )
