"""What a queue can do whose table also has jobs that its workers must not claim."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar


class HasOtherJobs(ABC):
    """Adds such jobs to its table, and removes them. They are neither among its `job_ids` nor in its `backlog`."""

    other_job_states: ClassVar[tuple[str, ...]]
    """The states in which they can be; none if it has no such jobs after all."""
    no_other_jobs: ClassVar[str] = ""
    """Why it has none."""

    @abstractmethod
    def add_other_jobs(self, count: int, state: str) -> None:
        """Add ``count`` jobs in one of `other_job_states`."""

    @abstractmethod
    def count_other_jobs(self) -> int:
        """Return how many there are."""

    @abstractmethod
    def remove_other_jobs(self) -> None:
        """Remove them all."""
