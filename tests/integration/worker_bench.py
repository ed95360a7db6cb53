"""A queue on a real MariaDB with a real worker, a real producer, and a rival session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from stallbench.engines import driver_of
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.integration.innodb_rival import Rival
from tests.integration.real_processes import RecordingProcess, start_recording


@dataclass(frozen=True)
class Bench:
    """A queue with jobs in it, processes on it, and a rival."""

    endpoint: Endpoint
    servers: PrivateServers
    folder: Path
    stack: ExitStack

    def install(self, jobs: int = 0, **options: object) -> list[int]:
        """Make the queue and return the ids of the jobs that it begins with."""
        with opened_queue("laravel", options, self.endpoint, "install") as queue:
            queue.install()
            return list(queue.enqueue([NewJob(payload="{}")] * jobs)) if jobs else []

    def jobs_left(self, **options: object) -> dict[int, bool]:
        """Return the jobs that the queue still has, and whether each is claimed."""
        with opened_queue("laravel", options, self.endpoint, "final_snapshot") as queue:
            return dict(queue.job_ids())

    @property
    def job_faults(self) -> Path:
        """Folder of what goes wrong inside the worker."""
        return self.folder / "job_faults"

    def start_worker(self, endpoint: Endpoint | None = None, **options: object) -> RecordingProcess:
        """Start ``worker-1``, whose jobs take no time."""
        return self._start("worker", endpoint, work_s=0, job_faults=str(self.job_faults), queue_options=options)

    def start_producer(self, endpoint: Endpoint | None = None, *, rate: float = 20) -> RecordingProcess:
        """Start ``producer-1``."""
        return self._start("producer", endpoint, rate=rate)

    def rival(self) -> Rival:
        """Open one, for the rest of the test."""
        return self.stack.enter_context(Rival(self.endpoint))

    def kill_connection_of(self, name: str) -> None:
        """End a process's connection, whatever it is doing."""
        with driver_of("mariadb").connect(self.endpoint, "killer") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE user = %s", (name,))
            ((number,),) = cursor.fetchall()
            cursor.execute(f"KILL {number}")

    def _start(self, role: str, endpoint: Endpoint | None, **document: object) -> RecordingProcess:
        name = f"{role}-1"
        started = start_recording(
            self.servers.processes, role, name, endpoint or self.endpoint, "laravel", self.folder, **document
        )
        self.stack.callback(started.process.kill)
        return started


@pytest.fixture
def bench(empty_on: EmptyOn, servers: PrivateServers, tmp_path: Path) -> Iterator[Bench]:
    """An empty database on the MariaDB that tests share."""
    with ExitStack() as stack:
        yield Bench(empty_on("mariadb"), servers, tmp_path, stack)


@pytest.fixture
def short_waits(bench: Bench) -> Iterator[None]:
    """Sessions of this test wait for a lock for one second."""
    names = ("innodb_lock_wait_timeout", "lock_wait_timeout")
    with driver_of("mariadb").connect(bench.endpoint, "fixture") as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in names)}")
        before = cursor.fetchone()
        cursor.execute(f"SET {', '.join(f'GLOBAL {name} = 1' for name in names)}")
        yield
        cursor.execute(f"SET {', '.join(f'GLOBAL {name} = {value}' for name, value in zip(names, before, strict=True))}")
