"""The bench's side of processes that somebody else starts: invites them, follows them, and asks them to end with its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stallbench.atomic_file import replace_file
from stallbench.external.registration import FOLDER, INSTRUCTIONS_FILE, JoinInstructions, Registration, read_registrations
from stallbench.processes.clock_offset import measure_clock_offset
from stallbench.processes.record import ProcessRecord
from stallbench.records.endpoint import Endpoint
from stallbench.run.folder import RunFolder
from stallbench.scenario.model import Scenario
from stallbench.servers.cluster import Cluster

_LOOK_EVERY_S = 0.1


class ExternalProcesses:
    """Processes of a run that the bench has not started."""

    def __init__(self, folder: RunFolder) -> None:
        """Invite nobody yet."""
        self._folder = folder.path / FOLDER

    def publish(
        self, scenario: Scenario, queue: dict[str, Any], cluster: Cluster, scratch: Path, *, expose: bool = False
    ) -> None:
        """Leave the invitation; whoever finds it may take part until `end`."""
        password_file = None
        primary = cluster.server("primary")
        if primary.control.process is not None:
            password_file = scratch / "password-for-outside"
            password_file.touch(mode=0o600)
            password_file.write_text(primary.direct.password.get_secret_value())
        producers, workers = scenario.producers, scenario.workers
        instructions = JoinInstructions(
            endpoints={server.name: _without_password(server.proxied) for server in cluster.servers},
            password_file=password_file,
            bench_clock=measure_clock_offset(primary.proxied, "clock"),
            expose=expose,
            queue=queue["kind"],
            queue_options=queue["options"],
            worker={"work_s": workers.work_s, "poll_s": workers.poll_s, "seed": scenario.seed},
            producer={
                "rate": producers.rate / producers.count,
                "payload_bytes": producers.payload_bytes,
                "max_batch": producers.max_batch,
                "seed": scenario.seed,
            },
        )
        locust = RunFolder(self._folder.parent).locust
        locust.mkdir(exist_ok=True)
        self._folder.mkdir()
        # Whoever comes may be another user of the same host, or of a container.
        for folder in (self._folder, locust, self._folder.parent / "events"):
            folder.chmod(0o777)
        replace_file(self._folder / INSTRUCTIONS_FILE, instructions.model_dump_json(indent=1))

    def end(self, role: str, grace_s: float) -> None:
        """Ask all of a role to end, and wait until each has said that it did, or ``grace_s`` have passed."""
        if not (self._folder / INSTRUCTIONS_FILE).exists():
            return
        (self._folder / f"stop-{role}").touch()
        until_s = time.monotonic() + grace_s
        while time.monotonic() < until_s and any(registration.end_ns is None for registration in self._registrations(role)):
            time.sleep(_LOOK_EVERY_S)

    def exposed(self) -> dict[str, str]:
        """Return where those that have not ended answer Prometheus, ``host:port`` by name."""
        return {
            registration.name: f"{registration.host}:{registration.metrics_port}"
            for registration in read_registrations(self._folder)
            if registration.metrics_port is not None and registration.end_ns is None
        }

    def records(self) -> list[ProcessRecord]:
        """Return all of them for ``run.json``."""
        return [
            ProcessRecord.model_validate(
                {**registration.model_dump(), "intended": self._intended(registration), "external": True}
            )
            for registration in read_registrations(self._folder)
        ]

    def _registrations(self, role: str) -> list[Registration]:
        return [registration for registration in read_registrations(self._folder) if registration.role == role]

    def _intended(self, registration: Registration) -> str:
        """Whether it was asked to end; whoever has started a process may also end it, which is not uninvited."""
        return (
            "stopped" if registration.end_ns is not None or (self._folder / f"stop-{registration.role}").exists() else "running"
        )


def _without_password(endpoint: Endpoint) -> Endpoint:
    return endpoint.model_copy(update={"password": type(endpoint.password)("")})
