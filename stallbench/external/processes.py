"""The bench's side of external processes: publishes how to join the run, reads their records, and asks them to stop."""

from __future__ import annotations

from pathlib import Path

from stallbench.external.registration import (
    FOLDER,
    INSTRUCTIONS_FILE,
    JoinInstructions,
    ProducerLoad,
    WorkerLoad,
    read_registrations,
    stop_file,
)
from stallbench.processes.clock_offset import measure_clock_offset
from stallbench.processes.record import Intended, ProcessRecord
from stallbench.processes.role_command import describe_role_command
from stallbench.records.endpoint import Endpoint
from stallbench.run.folder import RunFolder
from stallbench.run.record import QueueRecord
from stallbench.scenario.model import Scenario
from stallbench.servers.cluster import Cluster
from stallbench.storage.atomic_file import replace_file
from stallbench.waiting import wait_until


class ExternalProcesses:
    """The processes of a run that the bench did not start."""

    def __init__(self, folder: RunFolder) -> None:
        """Publish nothing yet."""
        self._folder = folder.path / FOLDER

    def describe_how_to_join(self) -> str:
        """Return a sentence with the command by which a worker joins."""
        return f"external processes can join this run: {describe_role_command('workers', '--join', str(self._folder.parent))}"

    def publish(self, scenario: Scenario, queue: QueueRecord, cluster: Cluster, scratch: Path, *, expose: bool = False) -> None:
        """Write the instructions by which processes join the run until `stop`. ``queue``: its part of ``run.json``."""
        password_file = None
        primary = cluster.server("primary")
        if primary.control.process is not None:
            password_file = scratch / "password-for-external-processes"
            password_file.touch(mode=0o600)
            password_file.write_text(primary.direct.password.get_secret_value())
        producers, workers = scenario.producers, scenario.workers
        instructions = JoinInstructions(
            endpoints={server.name: _without_password(server.proxied) for server in cluster.servers},
            password_file=password_file,
            bench_clock=measure_clock_offset(primary.proxied, "clock"),
            expose=expose,
            queue=queue.kind,
            queue_options=queue.options,
            worker=WorkerLoad(work_s=workers.work_s, poll_s=workers.poll_s, max_poll_s=workers.max_poll_s, seed=scenario.seed),
            producer=ProducerLoad(
                rate=producers.rate / producers.count,
                payload_bytes=producers.payload_bytes,
                payload_content=producers.payload_content,
                max_batch=producers.max_batch,
                seed=scenario.seed,
            ),
        )
        locust = RunFolder(self._folder.parent).locust
        locust.mkdir(exist_ok=True)
        self._folder.mkdir()
        # A process that joins may run as another user of the same host, or as a user of a container.
        for folder in (self._folder, locust, self._folder.parent / "events"):
            folder.chmod(0o777)
        replace_file(self._folder / INSTRUCTIONS_FILE, instructions.model_dump_json(indent=1))

    def stop(self, role: str, grace_s: float) -> None:
        """Ask all processes of a role to stop, and wait until each has recorded its end, at most for ``grace_s``."""
        if (self._folder / INSTRUCTIONS_FILE).exists():
            stop_file(self._folder, role).touch()
            wait_until(lambda: not self._running(role), within_s=grace_s)

    def exposed(self) -> dict[str, str]:
        """Return where the running processes answer Prometheus: ``host:port`` by name."""
        return {
            record.name: f"{record.host}:{record.metrics_port}"
            for record in read_registrations(self._folder)
            if record.metrics_port is not None and record.end_ns is None
        }

    def records(self) -> list[ProcessRecord]:
        """Return the records of all processes for ``run.json``."""
        return [record.model_copy(update={"intended": self._intended(record)}) for record in read_registrations(self._folder)]

    def _running(self, role: str) -> list[ProcessRecord]:
        return [record for record in read_registrations(self._folder) if record.role == role and record.end_ns is None]

    def _intended(self, record: ProcessRecord) -> Intended:
        """Whether it was meant to stop. Its user may stop it at any time, so an end that it recorded is never unexpected."""
        has_to_stop = record.end_ns is not None or stop_file(self._folder, record.role).exists()
        return "stopped" if has_to_stop else "running"


def _without_password(endpoint: Endpoint) -> Endpoint:
    return endpoint.model_copy(update={"password": type(endpoint.password)("")})
