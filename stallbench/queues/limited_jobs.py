"""A limit of one job of each key at a time: a counter for each key, which a claim takes and the end of the execution gives back.

What happens to the counter when a worker dies, or is taken for dead, decides about the limit. If only the worker gives it back, a key whose worker has
died stays taken for ever. If the rescue of expired claims gives it back, too, a worker that was only slow gives it back a second time, and the limit is
exceeded from then on. Only who ends the claim may give it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from stallbench.queues.queue import NewJob, Precondition
from stallbench.queues.statements import fill_placeholders, read_statements
from stallbench.queues.status_column import StatusColumn, StatusColumnOptions

_STATEMENTS = read_statements(Path(__file__).with_suffix(".sql"))


class LimitedJobsOptions(StatusColumnOptions):
    """Options of the limit; those of the table are those of `status_column`."""

    keys: int = Field(default=100, ge=1, le=10_000, description="how many keys the jobs have, one after the other")
    release: Literal["worker", "worker_and_rescue", "claim"] = Field(
        default="claim",
        description="who gives the semaphore of a key back: only the worker that had taken it; the worker, and also the rescue of an expired claim; "
        "or whichever of the two has ended the claim",
    )
    semaphore_expires_s: int | None = Field(
        default=None,
        ge=1,
        le=86_400,
        alias="semaphore_expires",
        description="seconds after which a semaphore counts as given back; none: it does not",
    )


class LimitedJobs(StatusColumn):
    """One job of each key at a time."""

    kind = "limited_jobs"
    summary = "one job of each key at a time, by a semaphore for each key; claims as status_column does"
    source = "Solid Queue's limits_concurrency and its semaphores: its issues 546 and 735, and its pull request 761"
    options_type = LimitedJobsOptions
    ordered = False
    tables = ("status_column_jobs", "limited_jobs_semaphores")
    indexes = (*StatusColumn.indexes, "status_column_jobs_ready_by_key", "limited_jobs_semaphores_pkey")
    claim_pattern = r"^WITH free AS .*SKIP LOCKED"

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Serve ``connection``."""
        super().__init__(connection, options)
        assert isinstance(options, LimitedJobsOptions)
        self._limit = options
        self._preconditions: Mapping[int, Precondition] = {}
        expires_s = options.semaphore_expires_s
        placeholders = {
            "{keys}": str(options.keys),
            "{always}": str(options.release == "worker_and_rescue").lower(),
            "{is_expired}": "false" if expires_s is None else f"taken_at <= now() - {expires_s} * interval '1 second'",
        }
        self.statements |= {name: fill_placeholders(statement, placeholders) for name, statement in _STATEMENTS.items()}
        if options.release != "worker":
            self.statements["rescue"] = self.statements["rescue_and_release"]

    def install(self) -> None:
        """Create the table of jobs, and the semaphores."""
        super().install()
        for statement in ("add_key", "index_key", "create_semaphores", "add_semaphores"):
            self.execute(statement)

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs; several share one transaction and one round trip."""
        return self._limited(super().enqueue(jobs))

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Copy the jobs into the table."""
        return self._limited(super().load(jobs))

    def _limited(self, ids: Sequence[int]) -> Sequence[int]:
        self._preconditions = {job_id: Precondition(kind="alone", subject=str(job_id % self._limit.keys)) for job_id in ids}
        return ids

    @property
    def preconditions(self) -> Mapping[int, Precondition]:
        """The keys of the jobs of the latest `enqueue` or `load`."""
        return self._preconditions
