"""The collectors' process under the run's control: it watches the servers that there are, also after a failover."""

from __future__ import annotations

import sys

from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.run.folder import RunFolder
from stallbench.run.record import QueueRecord
from stallbench.servers.cluster import Cluster

_READY_S = 30.0
_STOP_S = 15.0
_NAME = "collectors"


class Sampling:
    """Starts the collectors, and starts them anew when the servers have changed their parts."""

    def __init__(
        self, cluster: Cluster, queue: QueueRecord, *, interval_s: float, processes: Supervisor, folder: RunFolder
    ) -> None:
        """Prepare; nothing is started."""
        self._cluster = cluster
        self._queue = queue
        self._interval_s = interval_s
        self._processes = processes
        self._folder = folder
        self._process: Process | None = None
        self._watched: list[tuple[str, str]] = []

    def start(self) -> None:
        """Start them, and wait until each has had a sample."""
        self._start().wait_ready(_READY_S)

    def follow(self) -> None:
        """Start them anew if another server has become the primary; what the two are called tells their samples apart.

        It does not wait: who cannot watch the new servers ends, and the run's end is told so.
        """
        if self._process is not None and self._watched != self._parts():
            self._process.ask_to_stop()
            self._start()

    def stop(self) -> None:
        """Let them take their last samples."""
        self._processes.stop(self._processes.of_role(_NAME), _STOP_S)

    def _parts(self) -> list[tuple[str, str]]:
        return [(server.name, server.role) for server in self._cluster.running]

    def _start(self) -> Process:
        self._watched = self._parts()
        self._process = self._processes.start(
            _NAME,
            _NAME,
            [sys.executable, "-m", "stallbench.collectors"],
            document={
                "name": _NAME,
                "run_folder": str(self._folder.path),
                "interval_s": self._interval_s,
                "servers": [
                    {
                        "name": server.name,
                        "role": server.role,
                        "endpoint": server.direct.with_password(),
                        "log": str(server.log) if server.log else None,
                    }
                    for server in self._cluster.running
                ],
                "queue": self._queue.model_dump(include={"kind", "options", "tables", "indexes"}),
            },
            log=self._folder.logs / "collectors.log",
            ready=True,
        )
        return self._process
