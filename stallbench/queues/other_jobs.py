"""What a queue can do whose table also has jobs that its workers must not claim."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from stallbench.queues.queue import Queue


class HasOtherJobs(ABC):
    """Adds such jobs to its table, and removes them. They are neither among its `job_ids` nor in its `backlog`."""

    other_job_states: ClassVar[tuple[str, ...]]
    """The states in which they can be."""

    @abstractmethod
    def add_other_jobs(self, count: int, state: str) -> None:
        """Add ``count`` jobs in one of `other_job_states`."""

    @abstractmethod
    def count_other_jobs(self) -> int:
        """Return how many there are."""

    @abstractmethod
    def remove_other_jobs(self) -> None:
        """Remove them all."""


def explain_lack_of_other_jobs(queue: type[Queue[Any]]) -> str:
    """Return why a queue that is no `HasOtherJobs` is none; a library's definition says it as ``no_other_jobs``."""
    return getattr(queue, "no_other_jobs", "its table has no jobs of other queues")
