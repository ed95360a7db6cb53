"""The rows that the bench adds to a library's table by the SQL of its definition: jobs of another queue, and completed jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stallbench.errors import NotCarriedOutError
from stallbench.libraries import DEFINITION, Library
from stallbench.libraries.option import Option
from stallbench.libraries.statements import CompletedJobs, OtherJobs
from stallbench.queues.completed_jobs import RETAINED, HasCompletedJobs
from stallbench.queues.other_jobs import HasOtherJobs

_AT_ONCE = 20_000
_RETAINED = Option(
    default=0,
    at_least=0,
    engines=("postgres",),
    description="completed jobs of earlier days that the table contains before the run",
)


_PUBLISH = """
DO $$
BEGIN
    PERFORM pg_stat_force_next_flush();
EXCEPTION WHEN undefined_function THEN
    PERFORM pg_sleep(1);
END
$$
"""
"""Adds to the server's statistics what this session has inserted: after a VACUUM the same rows would be counted twice. Until version 14 that takes
up to half a second."""


def options_of(library: Library) -> Mapping[str, Option]:
    """Return the options that a scenario may set: those of the definition and, if the bench can add completed jobs, their number."""
    return {**library.options, RETAINED: _RETAINED} if library.completed_jobs else library.options


def explain_lack_of_completed_jobs(library: Library) -> str:
    """Return why the bench cannot add completed jobs: the end of a sentence; empty if it can."""
    if library.completed_jobs:
        return ""
    if library.retention and not library.retention.kept:
        return f"{library.title} keeps no completed jobs: {library.retention.what}"
    return f"the definition of {library.title} has no completed_jobs"


def explain_lack_of_prune_command(library: Library) -> str:
    """Return why no command deletes completed jobs: the end of a sentence; empty if one does."""
    if library.completed_jobs is None:
        return explain_lack_of_completed_jobs(library)
    return {
        "workers": f"{library.title} needs none: its workers delete completed jobs by themselves",
        "command": "",
        "nothing": f"{library.title} has none: nothing deletes its completed jobs",
    }[library.completed_jobs.deleted_by]


class LibraryRows(HasOtherJobs, HasCompletedJobs):
    """A library whose rows are added and counted by `Library.other_jobs` and `Library.completed_jobs`."""

    library: ClassVar[Library]
    connection: Any

    def add_other_jobs(self, count: int, state: str) -> None:
        """Add them by the definition's statement, in transactions of a moderate size."""
        assert state in self.other_job_states
        self._add(self._other_jobs.ready, count)

    def count_other_jobs(self) -> int:
        """Count them by the definition's statement; raises `NotCarriedOutError` if it returns something else."""
        return self._count("other_jobs", self._other_jobs.count)

    def remove_other_jobs(self) -> None:
        """Delete them by the definition's statement."""
        self.connection.execute(self._other_jobs.remove)

    def add_completed_jobs(self, count: int) -> None:
        """Add them by the definition's statement, in transactions of a moderate size; raises `NotCarriedOutError` if one is missing then."""
        before = self.count_completed_jobs()
        self._add(self._completed_jobs.add, count)
        self.connection.execute(_PUBLISH)
        added = self.count_completed_jobs() - before
        if added != count:
            raise NotCarriedOutError(
                f"{self.library.folder / DEFINITION}: completed_jobs.add was to add {count} jobs; completed_jobs.count found {added} more"
            )

    def count_completed_jobs(self) -> int:
        """Count them by the definition's statement; raises `NotCarriedOutError` if it returns something else."""
        return self._count("completed_jobs", self._completed_jobs.count)

    @property
    def _other_jobs(self) -> OtherJobs:
        assert self.library.other_jobs is not None
        return self.library.other_jobs

    @property
    def _completed_jobs(self) -> CompletedJobs:
        assert self.library.completed_jobs is not None
        return self.library.completed_jobs

    def _add(self, statement: str, count: int) -> None:
        for begin in range(0, count, _AT_ONCE):
            self.connection.execute(statement, {"count": min(_AT_ONCE, count - begin)})

    def _count(self, table: str, statement: str) -> int:
        rows = self.connection.execute(statement).fetchall()
        try:
            ((number,),) = rows
            return int(number)
        except (TypeError, ValueError):
            expected = "one row with the number of these jobs"
            raise NotCarriedOutError(
                f"{self.library.folder / DEFINITION}: {table}.count returned {rows}; expected {expected}"
            ) from None
