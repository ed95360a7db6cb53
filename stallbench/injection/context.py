"""The parts of a run that an injection can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a scenario is validated without what a run needs
    from stallbench.processes.process import Process
    from stallbench.processes.supervisor import Supervisor
    from stallbench.queues.record import QueueRecord
    from stallbench.servers.cleanup_journal import CleanupJournal
    from stallbench.servers.cluster import Cluster


class Load(Protocol):
    """The processes that enqueue and complete jobs, as far as injections act on them; see `stallbench.run.load.Load`."""

    is_upgraded: bool
    """Whether workers that start from now on are of the newer version of a library."""

    def start_extra_producer(
        self,
        *,
        rate: float = 0,
        backlog: int = 0,
        mark: str | None = None,
        queue: str | None = None,
        payload_bytes: int | None = None,
    ) -> Process:
        """Start a producer beside those of the scenario."""

    def end(self, process: Process) -> None:
        """Stop one process after its current operation."""

    def workers_that_met(self, job_fault: str) -> set[str]:
        """Return the workers that have reported a job fault."""

    def set_clocks(self, on: str) -> None:
        """Set the clocks of a library's workers to what the active faults want."""

    def named(self, on: str) -> list[Process]:
        """Return the running processes that ``on`` names."""

    def at_work(self, on: str) -> list[Process]:
        """Return those of them that have begun to work."""

    def replace(self, process: Process, **changes: object) -> Process:
        """Start the successor of a process that has ended, or is about to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionContext:
    """The parts of a run that faults, longrunners and maintenance act on."""

    cluster: Cluster
    load: Load
    processes: Supervisor
    queue: QueueRecord
    logs: Path
    """Folder of the output of processes."""
    job_faults: Path
    """Folder of the active job faults; it exists only while one is active."""
    scratch: Path
    """Folder for the files of a server that an injection starts; removed at the end of the run."""
    journal: CleanupJournal
    """What has to be undone on external servers, also if the bench is killed."""
    seed: int
    """The run's. Whatever an injection draws at random follows from it and from the injection's name."""
    note: Callable[[str], None]
    """Adds a sentence that the report must show."""
