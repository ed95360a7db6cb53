"""A cluster as a run starts it, without a run."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stallbench.engines.database import Database
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.servers.cluster import Cluster, start_cluster


@dataclass(frozen=True, slots=True)
class StartedCluster:
    """A cluster with the processes that it consists of."""

    cluster: Cluster
    processes: Supervisor
    scratch: Path


@contextmanager
def running_cluster(database: Database, logs: Path, second_engine: str | None = None) -> Iterator[StartedCluster]:
    """Start a cluster and take it down, also when the test process is killed."""
    token = secrets.token_hex(8)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    with start_reaper(token, record=logs / "run.json", scratch=scratch):
        processes = Supervisor(token, scratch=scratch)
        try:
            cluster = start_cluster(
                database,
                scratch=scratch,
                logs=logs,
                processes=processes,
                progress=lambda _: None,
                second_engine=second_engine,
            )
            yield StartedCluster(cluster, processes, scratch)
        finally:
            processes.stop_all()
