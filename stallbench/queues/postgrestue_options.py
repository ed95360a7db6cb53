"""Options of Postgrestue, and of the jobs that the bench enqueues into it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stallbench.queues.queue import OptionRole, QueueOptions


class PostgrestueOptions(QueueOptions):
    """The tables, the claim, how statements are sent, the scheduler, and what jobs wait for."""

    claim: Literal["skip_locked", "serializable"] = Field(
        default="skip_locked",
        description="how workers avoid conflicts: row locks with SKIP LOCKED, or SERIALIZABLE transactions that are retried",
    )
    serialization_retries: int = Field(
        default=50, ge=0, description="how often an operation under SERIALIZABLE is retried before it is an error"
    )
    pipeline: bool = Field(default=False, description="whether independent statements are sent in one pipeline")
    client: Literal["libpq", "cursor"] = Field(
        default="libpq",
        description="how statements are sent: prepared statements of libpq, as the bench's other queues, or psycopg's cursors, as the source",
    )
    fillfactor: int = Field(
        default=50, ge=10, le=100, description="of running_job, in percent; the rest of a page is for updates"
    )
    state_index: bool = Field(default=False, description="whether running_job has an index on its state, which updates change")
    owner: str = Field(default="stallbench", description="owner of the jobs")
    job_kind: str = Field(default="sleep", description="name of the function that the jobs execute")
    max_attempts: Annotated[int, OptionRole.ATTEMPT_LIMIT] = Field(
        default=3, ge=1, le=32767, description="attempts before a job fails for good"
    )
    time_limit_s: float = Field(default=60, gt=0, alias="time_limit", description="seconds that an attempt may take")
    scheduler_every_s: float = Field(
        default=1.0, gt=0, le=60, alias="scheduler_every", description="pause of the scheduler in seconds; the prototype's is 5"
    )
    ping_every_s: float = Field(
        default=5.0, gt=0, alias="ping_every", description="seconds between pings; a claim pings when this time has passed"
    )
    rescue: Literal["none", "pings", "time_limit"] = Field(
        default="none",
        description="which jobs the scheduler rescues: none, as in the prototype; those of workers that no longer ping; "
        "those that take longer than their time limit",
    )
    silent_after_s: float = Field(
        default=15.0, gt=0, alias="silent_after", description="seconds without a ping after which a worker is presumed dead"
    )
    fifo_share: float = Field(default=0.0, ge=0, le=1, description="share of the jobs that belong to a FIFO queue")
    fifo_queues: int = Field(default=10, ge=1, description="number of FIFO queues")
    scheduled_share: float = Field(default=0.0, ge=0, le=1, description="share of the jobs that are scheduled for later")
    schedule_s: float = Field(
        default=2.0, gt=0, alias="schedule", description="mean of how much later, in seconds; drawn from half to 1.5 of it"
    )
    blocked_share: float = Field(
        default=0.0, ge=0, le=1, description="share of the jobs that wait for the one that the same client enqueued before them"
    )
