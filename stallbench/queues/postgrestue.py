"""Postgrestue, a prototype. A job's description, its state, and what it waits for are in different tables.

The claim reads a small table without an index on changing columns. All work that would make this table larger or slower is done at enqueue, at
completion, and by a scheduler.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from stallbench.queues.postgres_queue import PostgresQueue
from stallbench.queues.postgrestue_jobs import Described, Describer, calls_to_enqueue, calls_to_make_wait
from stallbench.queues.postgrestue_options import PostgrestueOptions
from stallbench.queues.postgrestue_senders import SENDERS
from stallbench.queues.queue import Backlog, Claim, ClaimExpiredError, NewJob, Precondition, Promise
from stallbench.queues.statements import read_statements

_HERE = Path(__file__)
_SCHEMA = read_statements(_HERE.with_name("postgrestue_schema.sql"))
_SCHEDULER = read_statements(_HERE.with_name("postgrestue_scheduler.sql"))
_STATE_INDEX = "CREATE INDEX running_job_state ON running_job (state)"
_IDS_A_BLOCK = 1000

Moved = TypeVar("Moved")


class _Handle(NamedTuple):
    """What is needed to end an attempt."""

    attempt: int
    queue: str | None
    max_attempts: int


class Postgrestue(PostgresQueue[PostgrestueOptions]):
    """Jobs move from table to table. A claim is a row, so it survives its worker."""

    kind = "postgrestue"
    statements = read_statements(_HERE.with_suffix(".sql")) | _SCHEDULER
    summary = "a sequential scan of a small table of what can be run, FOR UPDATE SKIP LOCKED, and a heap-only update"
    source = "'Postgrestue', the prototype's README, and its schema"
    options_type = PostgrestueOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = False
    claims_survive_connection = True
    puts_off_failed = False
    needs_scheduler = True
    tables = ("running_job", "job", "scheduled_job", "blocked_job", "queued_job", "worker")
    indexes = ("running_job_pkey", "running_job_queue_key", "job_pkey")
    claim_pattern = r"FROM \(SELECT job_id, attempt FROM running_job WHERE state"

    @classmethod
    def rescues_jobs_by(cls, options: PostgrestueOptions) -> bool:
        """Whether its scheduler does; the prototype's does not."""
        return options.rescue != "none"

    def __init__(self, connection: Any, options: PostgrestueOptions) -> None:
        """Serve ``connection``; a worker is registered at its first claim."""
        super().__init__(connection, options)
        self._send = SENDERS[options.client](self.session, self.statements, pipeline=options.pipeline).send
        self._is_serializable = options.claim == "serializable"
        self._begin = "begin_serializable" if self._is_serializable else "begin"
        self._find = "find_unlocked" if self._is_serializable else "find"
        self._describer: Describer | None = None
        self._described: list[Described] = []
        self._ids: list[int] = []
        self._worker_id: int | None = None
        self._pinged_s = 0.0

    def install(self) -> None:
        """Create the tables, including the partitions of the current days."""
        for statement in _SCHEMA.values():
            self.connection.execute(statement.replace("{fillfactor}", str(self.options.fillfactor)).encode())
        if self.options.state_index:
            self.connection.execute(_STATE_INDEX)

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs' descriptions, and each job into the table for what it waits for."""
        described = self._describe(jobs)
        self._send(*calls_to_enqueue(described, self.options))
        return [job.job_id for job in described]

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the descriptions and the rows of runnable jobs; insert the waiting jobs into their tables."""
        options, described = self.options, self._describe(jobs)
        common = (options.owner, options.job_kind, options.max_attempts, f"{options.time_limit_s} s")
        with self.connection.transaction():
            waiting_for = ((job.schedule_time, job.blocking_job_id, job.queue, job.arguments) for job in described)
            self.copy("load_job", ((job.job_id, *common, *rest) for job, rest in zip(described, waiting_for, strict=True)))
            self.copy("load", ((job.job_id, 1, "enqueued") for job in described if not job.waits))
            if calls := calls_to_make_wait(described):
                self._send(*calls)
        return [job.job_id for job in described]

    @property
    def preconditions(self) -> dict[int, Precondition]:
        """See the base class."""
        if self._describer is None or not self._describer.draws:
            return {}
        return {job.job_id: job.precondition for job in self._described if job.precondition is not None}

    def claim(self) -> Sequence[Claim]:
        """Take one job. The first claim registers the worker; later ones ping when it is time to."""
        self._be_there()
        return self._serialize(self._claim_once)

    def complete(self, claim: Claim) -> None:
        """End the attempt, release the jobs that waited for it, and start the next job of its FIFO queue.

        Raises `ClaimExpiredError` if the scheduler has given the job to another worker.
        """
        calls = [("release_blocked", (claim.job_id,))]
        if claim.handle.queue is not None:
            calls.append(("start_next", (claim.handle.queue,)))
        self._serialize(lambda: self._end(claim, "succeeded", None, calls))

    def fail(self, claim: Claim, error: str) -> None:
        """End the attempt; the next attempt can be run at once if one is left. Raises `ClaimExpiredError` as `complete` does."""
        handle: _Handle = claim.handle
        calls: list[tuple[str, tuple[Any, ...]]] = []
        if handle.attempt < handle.max_attempts:
            calls = [("try_again", (claim.job_id, handle.attempt + 1, handle.queue))]
        elif handle.queue is not None:
            calls = [("start_next", (handle.queue,))]
        self._serialize(lambda: self._end(claim, "failed", error, calls))

    def recover(self, error: Exception) -> bool:
        """Roll back and continue, unless the connection is lost. The worker keeps its registration."""
        if self.session.is_connection_lost(error):
            return False
        self.session.rollback()
        return True

    def schedule(self) -> float:
        """Move due jobs, start stranded ones, and rescue the jobs of workers that are presumed dead."""
        silent_after_s = str(self.options.silent_after_s)
        self._send(("move_due", ()))
        self._send(("release_blocked_late", ()))
        self._send(("start_stranded", ()))
        if self.options.rescue == "pings":
            self._send(("rescue_from_silent", (silent_after_s,)))
            self._send(("forget_silent", (silent_after_s,)))
        elif self.options.rescue == "time_limit":
            self._send(("rescue_overdue", ()))
        return self.options.scheduler_every_s

    def deregister(self) -> None:
        """Remove the worker's row."""
        if self._worker_id is not None:
            self._send(("deregister", (self._worker_id,)))
            self._worker_id = None

    def explain(self) -> str:
        """Return the server's plan for the next claim."""
        return self.session.explain(re.sub(r"\s+", " ", self.statements[self._find]))

    def backlog(self) -> Backlog:
        """Count the runnable and the due jobs; a job that waits for another one is not ready."""
        ((depth, age_s),) = self._send(("backlog", ()))[0].rows
        return Backlog(depth=int(depth), oldest_job_s=None if age_s is None else float(age_s))

    def is_drained(self) -> bool:
        """Whether every job has finished."""
        ((is_any,),) = self._send(("any_job", ()))[0].rows
        return str(is_any) in ("f", "False")

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the tables of unfinished jobs; a job is claimed while its state is processing."""
        for job_id, claimed in self.stream("job_ids"):
            yield int(job_id), bool(claimed)

    def _claim_once(self) -> Sequence[Claim]:
        *_, found = self._send((self._begin, ()), (self._find, ()))
        if not found.rows:
            self._send(("commit", ()))
            return []
        job_id, attempt, arguments, queue, max_attempts = found.rows[0]
        self._send(("mark", (self._worker_id, int(job_id), int(attempt))), ("commit", ()))
        handle = _Handle(int(attempt), queue, int(max_attempts))
        return [Claim(job_id=int(job_id), attempt=int(attempt), payload=arguments, handle=handle)]

    def _end(self, claim: Claim, outcome: str, result: str | None, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        *_, removed = self._send((self._begin, ()), ("remove", (claim.job_id, claim.handle.attempt)))
        if not removed.rows:
            self._send(("rollback", ()))
            raise ClaimExpiredError(claim.job_id)
        start_time = str(removed.rows[0][0])
        self._send(
            ("note_end", (claim.job_id, claim.handle.attempt, outcome, start_time, result)),
            *calls,
            ("commit", ()),
        )

    def _serialize(self, move: Callable[[], Moved]) -> Moved:
        """Run an operation; under SERIALIZABLE, retry it while the server reports serialization failures."""
        for _ in range(self.options.serialization_retries if self._is_serializable else 0, 0, -1):
            try:
                return move()
            except Exception as error:
                if not self.session.is_conflict(error):
                    raise
                self.on_retry(error)
                self.session.rollback()
        return move()

    def _be_there(self) -> None:
        """Register, or ping if it is time to."""
        now_s = time.monotonic()
        if self._worker_id is None:
            name = self.connection.info.get_parameters().get("application_name", "worker")
            self._worker_id = int(self._send(("register", (name,)))[0].rows[0][0])
        elif now_s - self._pinged_s >= self.options.ping_every_s:
            self._send(("ping", (self._worker_id,)))
        else:
            return
        self._pinged_s = now_s

    def _describe(self, jobs: Sequence[NewJob]) -> list[Described]:
        if self._describer is None:
            self._describer = Describer(self.options, self.random)
        self._described = self._describer.describe(jobs, self._take_ids(len(jobs)))
        return self._described

    def _take_ids(self, count: int) -> list[int]:
        """Return unique ids: the rest of this client's block, then new blocks from the server."""
        while len(self._ids) < count:
            block = int(self._send(("take_block", ()))[0].rows[0][0])
            self._ids.extend(range((block - 1) * _IDS_A_BLOCK + 1, block * _IDS_A_BLOCK + 1))
        taken, self._ids = self._ids[:count], self._ids[count:]
        return taken
