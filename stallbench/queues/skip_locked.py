"""Row locks as claims: ``FOR UPDATE SKIP LOCKED``, with the job deleted in the transaction that locked it.

Most queues on PostgreSQL do this today. If a worker dies, its job is released at once. While it executes a job, its transaction stays open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from stallbench.queues.postgres_queue import (
    PostgresQueue,
    read_backlog,
    read_int,
    read_text,
)
from stallbench.queues.queue import Backlog, Claim, NewJob, Promise, QueueOptions
from stallbench.queues.statements import read_statements


class SkipLockedOptions(QueueOptions):
    """Options of `SkipLocked`."""

    notify: bool = Field(
        default=False, description="whether each enqueue also sends a NOTIFY, as queues do that wake their workers with it"
    )
    notification: Literal["job_id", "job", "empty"] = Field(
        default="job_id",
        description="what the notification contains: the job's id; the whole row as JSON; or nothing, so that all jobs of one enqueue call "
        "share a notification",
    )
    listen: bool = Field(default=False, description="whether workers wait for notifications (LISTEN), in addition to polling")
    listeners: int | None = Field(
        default=None,
        ge=1,
        description="only the first workers, up to this number, listen, as where a process has one listening connection; none: all",
    )
    listen_jitter_s: float = Field(
        default=0.0,
        ge=0,
        le=60,
        alias="listen_jitter",
        description="longest pause, in seconds, between a notification and the claim; drawn for each notification",
    )
    vacuum_every_s: float | None = Field(
        default=None,
        gt=0,
        le=86_400,
        alias="vacuum_every",
        description="seconds between scheduled VACUUMs of the table by a separate process, as with cron; none leaves it to autovacuum",
    )


class SkipLocked(PostgresQueue[SkipLockedOptions]):
    """``FOR UPDATE SKIP LOCKED``, one job per transaction."""

    kind = "skip_locked"
    statements = read_statements(Path(__file__).with_suffix(".sql"))
    summary = "FOR UPDATE SKIP LOCKED on the first free row, deleted in the same transaction"
    source = "PostgreSQL's documentation of SELECT (The Locking Clause); usual practice since 9.5"
    options_type = SkipLockedOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    tables = ("skip_locked_jobs",)
    indexes = ("skip_locked_jobs_pkey",)
    claim_pattern = r"FROM skip_locked_jobs .*SKIP LOCKED"

    def __init__(self, connection: Any, options: SkipLockedOptions) -> None:
        """Serve ``connection``; a worker that listens does so from its first claim on."""
        super().__init__(connection, options)
        self._listens = options.listen
        self._is_listening = False

    def introduce(self, endpoint: Any, name: str) -> None:
        """Read from the name whether the process is one of the workers that listen."""
        number = re.match(r"worker-(\d+)", name)
        self._listens &= self.options.listeners is None or (number is not None and int(number[1]) <= self.options.listeners)

    @classmethod
    def find_option_issue(cls, options: SkipLockedOptions, engine: str) -> tuple[str, str] | None:
        """Find that workers listen, and nobody notifies them."""
        if options.listen and not options.notify:
            return "listen", " is given without notify = true, so that there is no notification; add it"
        return None

    def install(self) -> None:
        """Create ``skip_locked_jobs``."""
        self.execute("install")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs; several share one transaction and one round trip."""
        statement = f"enqueue_and_notify_{self.options.notification}" if self.options.notify else "enqueue"
        return self.insert(statement, [(job.payload.encode(),) for job in jobs])

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs into the table."""
        ids = self.take_ids(len(jobs))
        self.copy("load", ((job_id, job.payload) for job_id, job in zip(ids, jobs, strict=True)))
        return ids

    @classmethod
    def has_scheduler(cls, options: SkipLockedOptions) -> bool:
        """Return whether the table is vacuumed on a schedule."""
        return options.vacuum_every_s is not None

    def schedule(self) -> float:
        """Vacuum the table."""
        assert self.options.vacuum_every_s is not None
        self.execute("vacuum")
        return self.options.vacuum_every_s

    def claim(self) -> Sequence[Claim]:
        """Begin a transaction and lock one job; end it if there is none."""
        if self._listens and not self._is_listening:
            self.execute("listen")
            self._is_listening = True
        self.execute("begin")
        locked = self.execute("claim")
        if locked.ntuples == 0:
            self.execute("commit")
            return []
        job_id = read_text(locked, 0)
        attempt = read_int(locked, 1) + 1
        return [
            Claim(
                job_id=int(job_id),
                attempt=attempt,
                payload=read_text(locked, 2).decode(),
                handle=job_id,
            )
        ]

    def wait_for_jobs(self, timeout_s: float, pause: Callable[[float], bool]) -> bool:
        """Wait for a notification, if the worker listens; after it for a random time, if so configured."""
        if not self._is_listening:
            return super().wait_for_jobs(timeout_s, pause)
        is_notified = self.session.wait_for_notification(timeout_s, pause)
        if is_notified and self.options.listen_jitter_s:
            pause(self.random.uniform(0, self.options.listen_jitter_s))
        return is_notified

    def complete(self, claim: Claim) -> None:
        """Delete the job and commit."""
        self.execute("complete", claim.handle)
        self.execute("commit")

    def fail(self, claim: Claim, error: str) -> None:
        """Count the attempt, delay the job, and commit."""
        self.execute("fail", error.encode(), claim.handle)
        self.execute("commit")

    def backlog(self) -> Backlog:
        """Count what is due and not locked by an open transaction."""
        return read_backlog(self.execute("backlog"))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the table and its row locks."""
        for job_id, claimed in self.stream("job_ids"):
            yield int(job_id), bool(claimed)
