"""Unique jobs that are scheduled first: a stager makes those ready that are due. What it does about two jobs with one key decides about the queue.

The index that makes keys unique may leave scheduled jobs out. Then two jobs with one key are enqueued, and the stager finds out. If it moves all due
jobs by one statement, that statement fails as a whole, each time, because the conflict remains: no job of any key becomes ready any more. The same
happens without a conflict if so many jobs are due that the statement runs into a time limit: at the next attempt there are more of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from stallbench.queues.postgres_queue import read_int, read_row
from stallbench.queues.queue import Claim, NewJob, Precondition
from stallbench.queues.statements import fill_placeholders, read_statements
from stallbench.queues.status_column import StatusColumnOptions
from stallbench.queues.unique_jobs import UniqueJobs, UniqueJobsOptions

_STATEMENTS = read_statements(Path(__file__).with_suffix(".sql"))


class StagedJobsOptions(UniqueJobsOptions):
    """Options of the stager; those of the enqueue are those of `unique_jobs`, and apply to scheduled jobs too."""

    delay_s: float = Field(
        default=0.0, ge=0, le=3600, alias="delay", description="seconds from the enqueue of a job until it is due"
    )
    due_every_s: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        alias="due_every",
        description="due times are put off to the next multiple of so many seconds, as of jobs that are scheduled for a full hour; 0: they are not",
    )
    due_jitter_s: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        alias="due_jitter",
        description="due times are put off by a random time up to this, in seconds",
    )
    stage: Literal["in_one_statement", "in_batches", "skip_conflicts"] = Field(
        default="skip_conflicts",
        description="how due jobs become ready: all by one statement, which fails if a key is not unique; the first ones, `stage_batch` at once; or "
        "without those whose key another job has that is ready or claimed, which stay scheduled until that one is over",
    )
    stage_batch: int = Field(
        default=1000, ge=1, le=1_000_000, description="with `in_batches`: jobs that one statement makes ready, at most"
    )
    stage_timeout_s: float | None = Field(
        default=None,
        gt=0,
        le=3600,
        alias="stage_timeout",
        description="seconds after which the server cancels the statement that makes jobs ready; none: it does not",
    )
    stage_every_s: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        alias="stage_every",
        description="seconds between two searches for due jobs, by each worker; 0: before each claim",
    )
    unique_when_ready: bool = Field(
        default=True, description="whether an index makes the keys of ready and claimed jobs unique; it leaves scheduled jobs out"
    )


class StagedJobs(UniqueJobs):
    """Workers stage due jobs before they claim, one worker at a time."""

    kind = "staged_jobs"
    summary = "jobs are scheduled, and made ready when they are due; keys are unique among ready and claimed jobs; claims as status_column does"
    source = (
        "Oban's stager with states that a unique job leaves out (Oban issue 1416, oban-py issue 19); pg-boss issue 492; Oban's stager of 2.6, which "
        "has no limit (Oban issue 477)"
    )
    options_type = StagedJobsOptions
    ordered = False

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Serve ``connection``; the first claim stages due jobs."""
        super().__init__(connection, options)
        assert isinstance(options, StagedJobsOptions)
        self._staging = options
        self._stage_at_s = 0.0
        self._due: Mapping[int, Precondition] = {}
        placeholders = {
            "{delay}": str(options.delay_s),
            "{every}": str(options.due_every_s),
            "{jitter}": str(options.due_jitter_s),
            "{batch}": str(options.stage_batch),
            "{timeout_ms}": str(round((options.stage_timeout_s or 0) * 1000)),
        }
        self.statements |= {name: fill_placeholders(statement, placeholders) for name, statement in _STATEMENTS.items()}

    @classmethod
    def count_advisory_locks(cls, options: StatusColumnOptions) -> int:
        """Return one: the stager's."""
        return 1

    def install(self) -> None:
        """Create the table, whose new jobs are scheduled, and its indexes."""
        super().install()
        self.execute("schedule_new_jobs")
        if self._staging.due_every_s:
            self.execute("put_off_new_jobs")
        self.execute("index_scheduled")
        if self._staging.unique_when_ready:
            self.execute("index_unique_when_ready")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Schedule the jobs, as `UniqueJobs.enqueue` does."""
        ids = super().enqueue(jobs)
        self._due = self._read_due_times([job_id for job_id, job in zip(ids, jobs, strict=True) if not job.key])
        return ids

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs into the table."""
        ids = super().load(jobs)
        self._due = self._read_due_times(ids)
        return ids

    def _read_due_times(self, ids: Sequence[int]) -> Mapping[int, Precondition]:
        if not ids:
            return {}
        due = self.execute("due_times", f"{{{','.join(map(str, ids))}}}".encode())
        rows = (read_row(due, row, 2) for row in range(due.ntuples))
        return {int(job_id): Precondition(kind="due", subject=f"{due_us.decode()}000") for job_id, due_us in rows}

    @property
    def preconditions(self) -> Mapping[int, Precondition]:
        """The keys of the jobs of the latest `enqueue` or `load`, and when the others are due."""
        return {**self._due, **super().preconditions}

    def claim(self) -> Sequence[Claim]:
        """Make due jobs ready if it is time to, then claim one. Raises an error of the driver if a key is not unique."""
        if time.monotonic() >= self._stage_at_s:
            self._stage_at_s = time.monotonic() + self._staging.stage_every_s
            self._stage()
        return super().claim()

    def _stage(self) -> None:
        """Stage due jobs if no other worker does; after an error, `recover` ends the transaction."""
        self.execute("begin")
        if read_int(self.execute("try_to_lock_stager"), 0):
            if self._staging.stage_timeout_s:
                self.execute("limit_stager")
            self.execute(f"stage_{self._staging.stage}")
        self.execute("commit")
