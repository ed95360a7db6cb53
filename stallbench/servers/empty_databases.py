"""One private server that is kept, and an empty database on it for each who asks: a promise of a queue, or a run of a test session."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stallbench.engines import ENGINES
from stallbench.engines.database import Database
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.servers.cluster import Cluster, start_cluster


class EmptyDatabases:
    """Provides empty databases; made by `empty_databases`, which stops the servers."""

    def __init__(self, database: Database, second_engine: str | None, token: str, scratch: Path, logs: Path) -> None:
        """Start nothing yet."""
        self._database = database.model_copy(update={"replicas": 0})
        self._second_engine = second_engine
        self._scratch = scratch
        self._logs = logs
        self.processes = Supervisor(token, scratch=scratch)
        self._cluster: Cluster | None = None
        self._endpoint: Endpoint | None = None
        self._given = 0

    def give(self) -> Endpoint:
        """Return an empty database, and on the second server another; raises `NotCarriedOutError` if the servers do not start."""
        if self._endpoint is None or not ENGINES[self._database.engine].replaces_databases:
            self.processes.stop_all()  # an engine that cannot be emptied is started again, which is quick
            name = secrets.token_hex(4)
            scratch, logs = self._scratch / name, self._logs / name
            for folder in (scratch, logs):
                folder.mkdir(parents=True)
            scratch.chmod(0o711)  # PostgreSQL's own user has to get to its folder
            cluster = start_cluster(
                self._database,
                scratch=scratch,
                logs=logs,
                processes=self.processes,
                progress=lambda _: None,
                second_engine=self._second_engine,
            )
            self._cluster = cluster
            self._endpoint = cluster.server("primary").direct
            return self._endpoint
        self._given += 1
        name = f"stallbench_{self._given}"
        second = self._endpoint.second
        self._endpoint = _replace(self._endpoint, name).model_copy(update={"second": second and _replace(second, name)})
        return self._endpoint

    def check(self) -> None:
        """Raise `NotCarriedOutError` if a server has ended: an error of the queue is then no fault of the queue."""
        if self._cluster is not None:
            self._cluster.check()


@contextmanager
def empty_databases(database: Database, second_engine: str | None, logs: Path) -> Iterator[EmptyDatabases]:
    """Stop every server that was started, also when this process is killed."""
    token = secrets.token_hex(8)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    scratch.chmod(0o711)
    with start_reaper(token, record=logs / "run.json", scratch=scratch):
        databases = EmptyDatabases(database, second_engine, token, scratch, logs)
        try:
            yield databases
        finally:
            databases.processes.stop_all()


def _replace(former: Endpoint, name: str) -> Endpoint:
    """Return an empty database in place of another one. With a new name, what is left of a run that was killed cannot change the database of the next
    one: its reaper drops the tables of the run, for example.
    """
    return ENGINES[former.engine].replace_database(former, name)
