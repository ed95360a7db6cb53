"""Starts and stops the process of the collectors. After a failover it starts a new one, for the new primary."""

from __future__ import annotations

from stallbench.processes.process import ROLE_READY_S, ROLE_STOP_S, Process
from stallbench.processes.supervisor import Supervisor
from stallbench.python_command import python_command
from stallbench.queues.record import QueueRecord
from stallbench.run.folder import RunFolder
from stallbench.servers.cluster import Cluster

_NAME = "collectors"


class Sampling:
    """Starts the collectors, and starts them again when a server has changed its role."""

    def __init__(
        self, cluster: Cluster, queue: QueueRecord, *, interval_s: float, processes: Supervisor, folder: RunFolder
    ) -> None:
        """Start nothing yet."""
        self._cluster = cluster
        self._queue = queue
        self._interval_s = interval_s
        self._processes = processes
        self._folder = folder
        self._process: Process | None = None
        self._sampled: list[tuple[str, str]] = []
        self._logged_before = {server.name: server.log.stat().st_size for server in cluster.servers if server.log}

    def start(self) -> None:
        """Start the collectors without waiting for them."""
        self._start()

    def wait_ready(self) -> None:
        """Wait until each collector has taken a sample; does nothing if they were not started. Raises `NotCarriedOutError`."""
        if self._process is not None:
            self._process.wait_ready(ROLE_READY_S)

    def follow(self) -> None:
        """Start the collectors again if another server has become the primary. Samples name their server, so the two can be distinguished.

        Does not wait. If the collectors cannot reach the servers, their process ends, and the run records that it exited unexpectedly.
        """
        if self._process is not None and self._sampled != self._roles():
            self._process.ask_to_stop()
            self._start()

    def stop(self) -> None:
        """Stop the collectors after their last samples."""
        self._processes.stop(self._processes.of_role(_NAME), ROLE_STOP_S)

    def _roles(self) -> list[tuple[str, str]]:
        return [(server.name, server.role) for server in self._cluster.running]

    def _start(self) -> Process:
        self._sampled = self._roles()
        self._process = self._processes.start(
            _NAME,
            _NAME,
            python_command("stallbench.run.sampling"),
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
                        "log_bytes_before": self._logged_before.get(server.name, 0),
                    }
                    for server in self._cluster.running
                ],
                "queue": self._queue.model_dump(
                    include={"kind", "options", "tables", "indexes", "claim_pattern", "advisory_locks"}
                ),
            },
            log=self._folder.logs / "collectors.log",
            ready=True,
        )
        return self._process
