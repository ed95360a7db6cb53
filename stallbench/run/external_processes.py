"""The bench's side of external processes: publishes how to join the run, reads their records, and asks them to stop."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from stallbench.base.ports import LOOPBACK
from stallbench.base.storage.password_file import EXTERNAL_FOLDER, PASSWORD_FILE, remove_password
from stallbench.base.storage.private import Trust, find_group, open_trusted
from stallbench.engines.clock_offset import measure_clock_offset
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.processes.record import Intended, ProcessRecord
from stallbench.processes.role_command import describe_role_command
from stallbench.queues.record import QueueRecord
from stallbench.queues.registration import (
    INSTRUCTIONS_FILE,
    JoinInstructions,
    ProducerLoad,
    WorkerLoad,
    read_registrations,
    stop_file,
)
from stallbench.records.endpoint import Endpoint
from stallbench.run.folder import GROUP_WRITES, RunFolder
from stallbench.scenario.model import Scenario
from stallbench.servers.cluster import Cluster
from stallbench.waiting import wait_until

_ENTERED_BY_GROUP = 0o2750
"""Its files belong to the group, as the folder does; each can be replaced by its own user alone, so that no member writes another's instructions or records."""


class ExternalProcesses:
    """The processes of a run that the bench did not start."""

    def __init__(self, folder: RunFolder, group: str | None = None) -> None:
        """Publish nothing yet. ``group``: whose members may join, besides the run's own user."""
        self._folder = folder.path / EXTERNAL_FOLDER
        self._exposed_on: str | None = None
        self._group = None if group is None else find_group(group)
        self._trust = Trust(root=True, group=self._group)

    def describe_how_to_join(self) -> str:
        """Return a sentence with the command by which a worker joins."""
        return f"external processes can join this run: {describe_role_command('workers', '--join', str(self._folder.parent))}"

    def publish(self, scenario: Scenario, queue: QueueRecord, cluster: Cluster, *, expose: str | None = None) -> None:
        """Write the instructions by which processes join the run until `stop`. ``queue``: its part of ``run.json``."""
        self._exposed_on = expose
        primary = cluster.server("primary")
        producers, workers = scenario.producers, scenario.workers
        instructions = JoinInstructions(
            endpoints={server.name: _without_password(server.proxied) for server in cluster.servers},
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
        self._folder.mkdir(mode=0o700)
        if self._group is not None:
            self._share(self._folder.parent, _ENTERED_BY_GROUP)
            for folder in (self._folder, locust, self._folder.parent / "events"):
                self._share(folder, GROUP_WRITES)
        if primary.control.process is not None:
            self._write(PASSWORD_FILE, primary.direct.password.get_secret_value())
        self._write(INSTRUCTIONS_FILE, instructions.model_dump_json(indent=1))

    def _share(self, folder: Path, mode: int) -> None:
        assert self._group is not None
        try:
            os.chown(folder, -1, self._group)
        except PermissionError as error:
            raise NotCarriedOutError(f"{folder} cannot be given to the group of --group: you are no member of it") from error
        folder.chmod(mode)

    def _write(self, name: str, text: str) -> None:
        with open_trusted(self._folder, self._trust, is_shared=True) as folder:
            folder.replace(name, text, mode=0o600 if self._group is None else 0o640)

    def close(self) -> None:
        """Remove the password, with which nothing can be reached any more. A second call does nothing."""
        remove_password(self._folder.parent)

    def stop(self, role: str, grace_s: float) -> None:
        """Ask all processes of a role to stop, and wait until each has recorded its end, at most for ``grace_s``."""
        if (self._folder / INSTRUCTIONS_FILE).exists():
            with suppress(IsADirectoryError):  # of a member of the group, which asks them as well
                self._write(stop_file(self._folder, role).name, "")
            wait_until(lambda: not self._running(role), within_s=grace_s)

    def exposed(self) -> dict[str, str]:
        """Return where the running processes answer Prometheus: ``host:port`` by name."""
        return {
            record.name: f"{LOOPBACK if self._exposed_on == LOOPBACK else record.host}:{record.metrics_port}"
            for record in read_registrations(self._folder, self._trust)
            if record.metrics_port is not None and record.end_ns is None
        }

    def records(self) -> list[ProcessRecord]:
        """Return the records of all processes for ``run.json``."""
        return [
            record.model_copy(update={"intended": self._intended(record)})
            for record in read_registrations(self._folder, self._trust)
        ]

    def _running(self, role: str) -> list[ProcessRecord]:
        return [
            record for record in read_registrations(self._folder, self._trust) if record.role == role and record.end_ns is None
        ]

    def _intended(self, record: ProcessRecord) -> Intended:
        """Whether it was meant to stop. Its user may stop it at any time, so an end that it recorded is never unexpected."""
        has_to_stop = record.end_ns is not None or stop_file(self._folder, record.role).exists()
        return "stopped" if has_to_stop else "running"


def _without_password(endpoint: Endpoint) -> Endpoint:
    return endpoint.model_copy(update={"password": type(endpoint.password)("")})


def require_group(group: str, scenario: Scenario) -> None:
    """Raise `BadInputError` if there is no ``group`` of this name, or if nobody can join a run of the scenario."""
    if not scenario.external_processes:
        raise BadInputError(
            f"--group {group} is for runs that processes can join; add --set external_processes=true, or leave it out"
        )
    try:
        find_group(group)
    except KeyError:
        raise BadInputError(
            f"--group {group}: there is no such group on this machine; expected a group that you belong to"
        ) from None
