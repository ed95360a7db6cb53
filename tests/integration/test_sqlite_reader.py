"""A reader on SQLite keeps the WAL file from being reset; how transactions begin decides who gets SQLITE_BUSY."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stallbench.engines import driver_of
from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.sqlite.collectors.wal import SQLiteWalCollector
from stallbench.engines.sqlite.longrunners import find_longrunner
from stallbench.engines.sqlite.starter import SQLiteFile
from stallbench.injection.maintenance import TaskDocument, find_maintenance_kinds
from stallbench.processes.process import Process
from stallbench.processes.role_command import role_command
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import NewJob
from stallbench.queues.laravel import Laravel
from stallbench.queues.queue_client import open_queue
from stallbench.records.endpoint import Endpoint
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

PATIENCE_S = 60.0
JOBS = [NewJob(payload="{}")]


@pytest.fixture
def file(tmp_path: Path) -> SQLiteFile:
    return SQLiteFile(tmp_path / "queue.sqlite")


@pytest.fixture
def endpoint(file: SQLiteFile) -> Endpoint:
    return file.endpoint


@pytest.fixture
def writer(endpoint: Endpoint) -> Iterator[sqlite3.Connection]:
    with closing(driver_of("sqlite").connect(endpoint, "writer")) as connection:
        connection.execute("CREATE TABLE written (filling text)")
        yield connection


@pytest.fixture
def processes() -> Iterator[Supervisor]:
    supervisor = Supervisor("test")
    yield supervisor
    supervisor.stop_all()


def start_reader(processes: Supervisor, endpoint: Endpoint, logs: Path, **options: object) -> Process:
    document = {"name": "reader-1", "kind": "snapshot_reader", "endpoint": endpoint.with_password(), "options": options}
    argv = role_command("longrunners")
    reader = processes.start("reader-1", "longrunner", argv, document=document, log=logs / "reader-1.log", ready=True)
    reader.wait_ready(PATIENCE_S)
    return reader


def checkpoint(endpoint: Endpoint) -> list[str]:
    """Let the maintenance task do one iteration, without waiting for readers."""
    kind = find_maintenance_kinds()["checkpoint"]
    document = TaskDocument(name="checkpoint-1", kind="checkpoint", endpoint=endpoint)
    task = kind(document, kind.options_type.model_validate({"wait": "0s"}))
    with closing(driver_of("sqlite").connect(endpoint, "maintenance")) as connection:
        return list(task.iterate(connection))


def read_wal_bytes(endpoint: Endpoint, folder: Path) -> int:
    primary = WatchedServer(name="primary", role="primary", endpoint=endpoint)
    queue = WatchedQueue(kind="laravel", tables=(), indexes=())
    document = CollectorsDocument(name="collectors", run_folder=folder, interval_s=1, servers=(primary,), queue=queue)
    return next(int(sample.value) for sample in SQLiteWalCollector(document).sample() if sample.metric == "wal_kept_bytes")


def test_no_checkpoint_resets_the_wal_until_the_reader_has_ended(
    file: SQLiteFile, writer: sqlite3.Connection, processes: Supervisor, tmp_path: Path
) -> None:
    endpoint = file.endpoint
    reader = start_reader(processes, endpoint, tmp_path)
    servers = {"primary": endpoint}
    holder = {"kind": "backend", "pid": reader.pid}
    found = find_longrunner(servers, "primary", "reader-1", holder)
    assert found is not None and found["holds_primary"]
    assert find_longrunner(servers, "primary", "reader-1", {"pid": os.getpid()}) is None

    writer.execute("INSERT INTO written VALUES (?)", ("x" * 100_000,))
    assert checkpoint(endpoint)[0].startswith("checkpoint, incomplete because of a reader or writer")
    assert read_wal_bytes(endpoint, tmp_path) > 100_000

    reader.stop(PATIENCE_S)
    assert reader.messages()[-1] == {"released": True}
    assert find_longrunner(servers, "primary", "reader-1", holder) is None
    assert checkpoint(endpoint) == ["checkpoint: 0 of 0 pages of the WAL are in the database"]
    assert read_wal_bytes(endpoint, tmp_path) == 0


def test_a_reader_with_short_transactions_lets_a_checkpoint_pass(
    endpoint: Endpoint, writer: sqlite3.Connection, processes: Supervisor, tmp_path: Path
) -> None:
    reader = start_reader(processes, endpoint, tmp_path, each="200ms")
    writer.execute("INSERT INTO written VALUES (?)", ("x" * 100_000,))
    wait_for(lambda: "incomplete" not in checkpoint(endpoint)[0], "a checkpoint that comes to its end", PATIENCE_S)
    assert reader.poll() is None


@pytest.mark.parametrize(("transaction", "error"), [("deferred", "SQLITE_BUSY_SNAPSHOT"), ("immediate", None)])
def test_a_transaction_that_has_read_cannot_write_after_another_has_written(
    endpoint: Endpoint, transaction: str, error: str | None
) -> None:
    options: dict[str, Any] = {"transaction": transaction, "busy_timeout": 0}
    queue, other = (open_queue("laravel", options, endpoint, name) for name in ("test", "other"))
    assert isinstance(queue, Laravel) and isinstance(other, Laravel)
    queue.install()
    (job,) = queue.enqueue(JOBS)
    queue.session.begin()  # as at the begin of a claim
    assert queue.session.run("SELECT id FROM jobs").rows == [(job,)]
    seen: list[str] = []
    for session in (other.session, queue.session):
        try:
            session.run("UPDATE jobs SET attempts = attempts + 1")
        except sqlite3.OperationalError as raised:
            seen.append(raised.sqlite_errorname)
    assert seen == [error or "SQLITE_BUSY"]  # with IMMEDIATE, it is the other that may not write
    queue.connection.close()
    other.connection.close()
