"""What a queue can do whose table also has jobs that its workers must not claim."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar


class HasOtherJobs(ABC):
    """Adds such jobs to its table, and removes them. They are neither among its `job_ids` nor in its `backlog`."""

    other_job_states: ClassVar[tuple[str, ...]]
    """The states in which they can be."""

    @abstractmethod
    def add_other_jobs(self, count: int, state: str) -> int:
        """Add ``count`` jobs in one of `other_job_states`; returns how many there are."""

    @abstractmethod
    def remove_other_jobs(self) -> int:
        """Remove them all; returns how many are left."""
