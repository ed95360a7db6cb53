"""The parts of a run that an injection can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a scenario is validated without what a run needs
    from stallbench.external.cleanup_journal import CleanupJournal
    from stallbench.processes.supervisor import Supervisor
    from stallbench.run.folder import RunFolder
    from stallbench.run.load import Load
    from stallbench.run.record import QueueRecord
    from stallbench.servers.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionContext:
    """The parts of a run that faults, longrunners and maintenance act on."""

    cluster: Cluster
    load: Load
    processes: Supervisor
    queue: QueueRecord
    folder: RunFolder
    scratch: Path
    """Folder for the files of a server that an injection starts; removed at the end of the run."""
    journal: CleanupJournal
    """What has to be undone on external servers, also if the bench is killed."""
    seed: int
    """The run's. Whatever an injection draws at random follows from it and from the injection's name."""
    note: Callable[[str], None]
    """Adds a sentence that the report must show."""
