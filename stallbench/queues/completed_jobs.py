"""What a queue can do that is a library which keeps completed jobs in a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

RETAINED = "retained"
"""The option by which the table contains completed jobs before the run."""


class HasCompletedJobs(ABC):
    """Adds completed jobs of earlier days to its table, and lets the library delete them. They are neither among its `job_ids` nor in its `backlog`."""

    no_completed_jobs: ClassVar[str] = ""
    """Why it cannot have such jobs: the end of a sentence; empty if it can."""
    no_prune_command: ClassVar[str] = ""
    """Why it has no command that deletes them: the end of a sentence; empty if it has one."""

    @abstractmethod
    def add_completed_jobs(self, count: int) -> None:
        """Add ``count`` jobs as the library leaves them in its table, completed so long ago that the library deletes them."""

    @abstractmethod
    def count_completed_jobs(self) -> int:
        """Return how many of them there are."""

    @abstractmethod
    def prune(self) -> None:
        """Let the library's command delete what is old enough, as a scheduler of the user would run it."""
