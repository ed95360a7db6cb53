"""A worker of a library says that it is ready when it is connected: the load begins then, and a deployment ends the worker that it replaces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import command_of, environment_of, find_missing_requirement
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue_client import opened_queue
from stallbench.queues.worker_command import name_connections
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stallbench:worker-1'"


@contextmanager
def ready_worker(queue: LibraryQueue, server: Endpoint, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a worker that waits for the first phase, and wait until it says that it is ready."""
    process = subprocess.Popen(
        command_of(queue.library, "work"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment_of(queue.library), **name_connections("worker-1")},
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        document = {
            "name": "worker-1",
            "endpoint": server.with_password(),
            "queue_options": queue.options.model_dump(mode="json"),
            "events": str(folder / "worker-1.csv"),
            "work_s": 0.0,
            "wait_for_go": True,
        }
        process.stdin.write(json.dumps(document) + "\n")
        process.stdin.flush()
        assert any(line.startswith('{"ready"') for line in process.stdout), "it ended before it was ready"
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("name", sorted(name for name, library in find_libraries().items() if "postgres" in library.engines))
def test_a_worker_that_is_ready_is_connected(empty_on: EmptyOn, tmp_path: Path, name: str) -> None:
    if missing := find_missing_requirement(find_library(name)):
        pytest.skip(missing)
    server = empty_on("postgres")
    with opened_queue(f"library:{name}", {}, server, "test") as queue, connect(server, "look") as admin:
        assert isinstance(queue, LibraryQueue)
        queue.require_programs(print)
        queue.install()
        with ready_worker(queue, server, tmp_path):
            assert admin.execute(CONNECTED).fetchone() != (0,)
