"""Longrunners on a real MariaDB: what the server reports, what they hold, how they end, and that nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from longrunners import find_longrunners
from stallbench.engines import driver_of
from stallbench.engines.innodb.collectors.purge import read_history_list_length
from stallbench.engines.innodb.views import OpenTransaction, read_open_transactions
from stallbench.processes.process import Process
from stallbench.processes.role_command import role_command
from stallbench.records.endpoint import Endpoint
from tests import waiting
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers

pytestmark = pytest.mark.integration

KINDS = list(find_longrunners("mariadb"))
WITH_A_VIEW = ["snapshot_reader", "replica_reader"]
PATIENCE_S = 60.0
_POLL_EVERY_S = 0.15
"""InnoDB refreshes its list of transactions only if it has not been read for 0.1 s."""


def wait_for(look: Callable[[], Any], what: str) -> Any:
    return waiting.wait_for(look, what, PATIENCE_S, every_s=_POLL_EVERY_S)


class Held:
    """A database, longrunners on it, and a connection that looks."""

    def __init__(self, servers: PrivateServers, endpoint: Endpoint, watcher: pymysql.Connection[Any], logs: Path) -> None:
        self.servers = servers
        self.endpoint = endpoint
        self.watcher = watcher
        self.logs = logs

    def document(self, kind: str, **more: object) -> dict[str, object]:
        return {"name": f"{kind}-1", "kind": kind, "endpoint": self.endpoint.with_password(), **more}

    def run(self, document: dict[str, object]) -> Process:
        name = str(document["name"])
        argv = role_command("longrunners")
        return self.servers.processes.start(
            name, "longrunner", argv, document=document, log=self.logs / f"{name}.log", ready=True
        )

    def start(self, kind: str) -> tuple[Process, int]:
        process = self.run(self.document(kind))
        holder = process.wait_ready(PATIENCE_S)["holder"]
        assert holder["application"] == f"longrunner:{kind}-1"
        return process, int(holder["pid"])

    def find(self, thread: int) -> OpenTransaction | None:
        time.sleep(_POLL_EVERY_S)
        return next((one for one in read_open_transactions(self.watcher) if one.thread_id == thread), None)

    def execute(self, statement: str) -> Any:
        with self.watcher.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


@pytest.fixture
def held(servers: PrivateServers, empty_on: EmptyOn, tmp_path: Path) -> Iterator[Held]:
    endpoint = empty_on("mariadb")
    with closing(driver_of("mariadb").connect(endpoint, "test")) as watcher:
        yield Held(servers, endpoint, watcher, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_lists_it_as_a_holder_until_it_is_asked_to_stop(held: Held, kind: str) -> None:
    process, thread = held.start(kind)
    # The server may still be at the end of a statement of which the longrunner has the result.
    transaction = wait_for(lambda: (found := held.find(thread)) and found.state == "sleep" and found, "its transaction, asleep")
    assert transaction.user == f"longrunner:{kind}-1"
    assert (transaction.view_age_xids is not None) == (kind in WITH_A_VIEW)

    process.stop(PATIENCE_S)
    assert process.exit_code == 0, process.tail_log()
    assert process.messages()[-1] == {"released": True}
    assert held.find(thread) is None
    assert held.execute("SHOW TABLES") == ()


@pytest.mark.parametrize("kind", KINDS)
def test_the_history_list_grows_while_it_is_open(held: Held, kind: str) -> None:
    held.execute("CREATE TABLE jobs (id int PRIMARY KEY)")
    # What others have left would be taken off the list while the longrunner's own comes onto it.
    wait_for(lambda: (read_history_list_length(held.watcher) or 0) < 100, "purge of what was there before")
    process, _ = held.start(kind)
    before = read_history_list_length(held.watcher) or 0
    for _ in range(200):
        held.execute("INSERT INTO jobs VALUES (1)")
        held.execute("DELETE FROM jobs")
    assert (read_history_list_length(held.watcher) or 0) >= before + 200
    process.stop(PATIENCE_S)
    wait_for(lambda: (read_history_list_length(held.watcher) or 0) < before + 200, "purge")


@pytest.mark.parametrize("kind", KINDS)
def test_it_reports_within_a_second_that_its_session_was_ended(held: Held, kind: str) -> None:
    process, thread = held.start(kind)
    held.execute(f"KILL {thread}")
    wait_for(lambda: process.poll() is not None, "its end")
    assert process.messages() == [{"lost": "the server has ended the session"}]
    assert process.exit_code == 3
    release(held, kind)


def release(held: Held, kind: str) -> list[str]:
    process = held.run(held.document(kind, release=True))
    process.wait_end(PATIENCE_S)
    assert process.exit_code == 0, process.tail_log()
    (message,) = process.messages()
    return list(message["removed"])


@pytest.mark.parametrize(("kind", "left"), [("idle_writer", ["table stallbench_idle_writer_1"]), ("snapshot_reader", [])])
def test_after_kill_9_the_same_document_removes_what_was_left(held: Held, kind: str, left: list[str]) -> None:
    process, thread = held.start(kind)
    process.kill()
    # Its session is in the list of processes for longer than its transaction is in InnoDB's, and would be among what is removed.
    in_list = f"SELECT id FROM information_schema.processlist WHERE id = {thread}"
    wait_for(lambda: not held.execute(in_list), "the end of its session")
    assert release(held, kind) == left
    assert held.execute("SHOW TABLES") == ()
    assert release(held, kind) == [], "there is nothing left to remove the second time"
