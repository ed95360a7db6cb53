"""The record of the queue under test in ``run.json``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stallbench.libraries.settings import Value
from stallbench.queues.queue import Promise


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LibraryRecord(_Part):
    """The published library under test."""

    title: str
    version: str
    language: str
    completion: str = Field(description="what the bench takes for the completion of a job")
    rescue: str = Field(description="what makes the job of a dead worker available to another worker")
    settings: dict[str, Value] = Field(
        default={}, description="in force in each worker process, see `stallbench.libraries.settings`; empty in an older record"
    )
    renews_claims: bool = Field(
        default=False, description="whether a worker renews the claim of a job that it executes, so that it expires later"
    )
    locks: str = Field(default="", description="hash of its locks, and so of what was installed; empty in an older record")


class QueueRecord(_Part):
    """The queue under test."""

    kind: str
    options: dict[str, Any] = Field(default={}, description="all options, with the values in force")
    promise: Promise
    ordered: bool = Field(description="whether jobs of one priority are claimed in the order of their enqueueing")
    rescues_jobs: bool = Field(default=True, description="whether the queue offers the job of a dead worker to another worker")
    claims_survive_connection: bool | None = Field(
        default=None, description="whether a claim continues after its worker's connection has ended; none if unknown"
    )
    claims_in_batches: bool = Field(
        default=False, description="whether a worker claims several jobs at once and is given them one by one"
    )
    expiry_s: float | None = Field(default=None, description="time after which a claim expires; none if it does not")
    attempt_limit: int | None = Field(
        default=None, description="number of attempts after which a job is no longer offered; none if there is no limit"
    )
    window: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="number of available jobs from which a worker chooses; none if it takes the first",
    )
    advisory_locks: int = Field(default=0, description="maximum number of advisory locks that a session holds at once")
    tables: tuple[str, ...]
    indexes: tuple[str, ...]
    claim_pattern: str = Field(
        default="", description="regular expression that finds the claim statement; empty if there is none"
    )
    code: str = Field(
        default="",
        description="hash of its module and statements; of a library, of its adapter, command and statements; empty in an older record",
    )
    library: LibraryRecord | None = Field(
        default=None, description="the published library, if the queue is one; none for an algorithm of the bench"
    )
    summary: str
    source: str

    @property
    def may_re_execute(self) -> bool:
        """Whether the queue may execute a job again after an execution that did not complete it."""
        return self.promise is Promise.AT_LEAST_ONCE

    @property
    def rescue_s(self) -> float | None:
        """Time from a claim, or from its last renewal, until a worker has taken the job again, even if it is idle; none as `expiry_s`.

        If the claim statement finds expired claims, an idle worker finds them when it looks for a job.
        """
        settings = self.library.settings if self.library else {}
        poll_s = settings.get("poll_interval") if settings.get("rescue_interval") == "each claim" else 0
        return self.expiry_s if self.expiry_s is None or not isinstance(poll_s, int | float) else self.expiry_s + poll_s

    @property
    def renews_claims(self) -> bool:
        """Whether a claim expires only when its worker no longer renews it."""
        return self.library is not None and self.library.renews_claims
