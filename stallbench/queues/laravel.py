"""Laravel's database queue of 2017, pessimistic: a row lock while the first available job is reserved, another while it is deleted.

On InnoDB the two locks are taken in opposite orders, through the queue's index here and the primary key there: workers deadlock, and a
deletion that was rolled back leaves a finished job to be re-executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from stallbench.queues.laravel_table import LaravelOptions, LaravelTableQueue
from stallbench.queues.queue import Claim, OptionRole


class LaravelPessimisticOptions(LaravelOptions):
    """Options of the deletion: the article's mitigations."""

    delete_retries: int = Field(
        default=1,
        ge=0,
        le=100,
        description="attempts at the transaction that deletes; 0 deletes without a separate transaction",
    )
    delete_mark: bool = Field(default=False, description="whether a finished job is marked before it is deleted")
    tries: Annotated[int, OptionRole.ATTEMPT_LIMIT] = Field(
        default=0, ge=0, le=255, description="attempts after which a job is moved to failed_jobs; 0: never (`--tries`)"
    )
    delay_s: int = Field(default=0, ge=0, alias="delay", description="seconds until a failed job is available again (`--delay`)")
    fetch_before_delete: bool = Field(default=True, description="whether the row is selected and locked before it is deleted")


class Laravel(LaravelTableQueue[LaravelPessimisticOptions]):
    """``SELECT .. FOR UPDATE``, then an ``UPDATE`` that reserves. A reservation expires if the job is not deleted in time."""

    kind = "laravel"
    summary = "locks the first available row, reserves it by time, and deletes it when the work is done"
    source = "Laravel 5.5's DatabaseQueue, as quoted in 'Laravel queueing optimization' (2017)"
    options_type = LaravelPessimisticOptions
    ordered = True

    def __init__(self, connection: Any, options: LaravelPessimisticOptions) -> None:
        """Serve ``connection``."""
        self.has_delete_mark = options.delete_mark
        self.extra_column = "add_delete_mark" if options.delete_mark else ""
        self.has_failed_jobs = options.tries > 0
        super().__init__(connection, options)

    def claim(self) -> Sequence[Claim]:
        """Reserve one job, as Laravel does.

        A job marked as done is deleted, and a job without attempts left is moved to failed_jobs. In this way Laravel's worker detects, before
        it starts, jobs that killed their workers.
        """
        while True:
            self.session.begin()
            rows = self.session.run(self.statements["next_jobs"], *self._when()).rows
            if not rows:
                self.session.commit()
                return []
            job_id, _, payload, attempts, *_, last = rows[0]
            if self.has_delete_mark and int(last) == 1:
                self.session.run(self.statements["delete"], int(job_id))
                self.session.commit()
                continue
            self.session.run(self.statements["reserve"], self.now_s(), int(job_id))
            self.session.commit()
            if 0 < self.options.tries <= int(attempts):
                self._move_to_failed_jobs(int(job_id), payload, f"attempted {attempts} times without a result")
                continue
            return [Claim(job_id=int(job_id), attempt=int(attempts) + 1, payload=payload)]

    def complete(self, claim: Claim) -> None:
        """Delete the job.

        A transaction that the server rolled back is retried up to ``delete_retries`` times, then the error is raised and the
        job is re-executed when its reservation has expired. A marked job is not: the next worker that claims it deletes it.
        """
        if self.has_delete_mark:
            self.session.run(self.statements["mark"], claim.job_id)
        attempts = max(1, self.options.delete_retries)
        for attempt in range(1, attempts + 1):
            try:
                self._delete(claim.job_id)
            except Exception as error:
                if not self.session.is_conflict(error) or (attempt == attempts and not self.has_delete_mark):
                    raise
                self.on_retry(error)
                self.session.rollback()
            else:
                return

    def fail(self, claim: Claim, error: str) -> None:
        """Make the job available again after the delay, or move it to failed_jobs after its last attempt.

        Laravel deletes the row and inserts it again under another id; here it keeps its id, by which the bench identifies it.
        """
        if 0 < self.options.tries <= (claim.attempt or 1):
            self._move_to_failed_jobs(claim.job_id, claim.payload, error)
        else:
            self.session.run(self.statements["release"], self.now_s() + self.options.delay_s, claim.job_id)

    def _move_to_failed_jobs(self, job_id: int, payload: str, why: str) -> None:
        """Delete the job, then record it as failed: in this order, and not in one transaction, as Laravel does."""
        self._delete(job_id)
        self.session.run(self.statements["move_to_failed_jobs"], job_id, self.queue_name, payload, why)

    def _delete(self, job_id: int) -> None:
        if self.options.delete_retries == 0 and not self.options.fetch_before_delete:
            self.session.run(self.statements["delete"], job_id)
            return
        self.session.begin()
        if not self.options.fetch_before_delete or self.session.run(self.statements["fetch"], job_id).rows:
            self.session.run(self.statements["delete"], job_id)
        self.session.commit()
