"""SQL in ``library.toml``: by which the bench reads the library's tables, and fills them before a run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stallbench.libraries.part import Part


class Statements(Part):
    """SQL by which the bench reads the library's tables; a table by engine if the engines need different statements."""

    backlog: str | dict[str, str] = Field(
        description="returns one row: the ready jobs, and the age of the oldest in seconds or null"
    )
    snapshot: str | dict[str, str] = Field(
        description="returns the number of each job that has not ended, and whether a worker has it"
    )

    def of(self, purpose: Literal["backlog", "snapshot"], engine: str) -> str:
        """Return the statement for a purpose on ``engine``."""
        statement: str | dict[str, str] = getattr(self, purpose)
        return statement if isinstance(statement, str) else statement[engine]


class OtherJobs(Part):
    """SQL by which the bench fills the library's table with jobs of another queue, on PostgreSQL."""

    ready: str = Field(
        pattern=r"%\(count\)s", description="adds %(count)s ready jobs that no worker of the bench takes; executed several times"
    )
    count: str = Field(description="returns how many of them there are")
    remove: str = Field(description="deletes them")


class CompletedJobs(Part):
    """SQL by which the bench fills the library's table with completed jobs, on PostgreSQL."""

    add: str = Field(
        pattern=r"%\(count\)s",
        description="adds %(count)s jobs as the library leaves them when they are completed, but so long ago that it deletes them; executed several times",
    )
    count: str = Field(description="returns how many of them there are")
    deleted_by: Literal["workers", "command", "nothing"] = Field(
        description="workers: by themselves; command: the user runs it, and the adapter as its verb prune; nothing: never"
    )
