"""Longrunners on servers at PostgreSQL's defaults: what cannot hold says which setting it needs, and a replica
without feedback ends its readers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.scenario import Database
from stallbench.servers.postgres import DATABASE
from tests.integration.conftest import running_cluster
from tests.integration.held_database import HeldDatabase, wait_for

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldDatabase]:
    """A primary and a replica without feedback, which lets a query delay the replay for 0.2 s."""
    logs = tmp_path_factory.mktemp("defaults")
    database = Database(replicas=1, replica_settings={"max_standby_streaming_delay": "200ms"})
    with (
        running_cluster(database, logs) as started,
        HeldDatabase(cluster=started.cluster, processes=started.processes, logs=logs, name=DATABASE) as held_database,
    ):
        yield held_database


NEEDS_A_SETTING = {
    "prepared": "max_prepared_transactions is 0 on primary, so nothing can be prepared; "
    "expected max_prepared_transactions of at least 1 in database.settings",
    "slot": "wal_level is not logical on primary; expected wal_level = 'logical' in database.settings, for a logical slot",
}


@pytest.mark.parametrize("kind", NEEDS_A_SETTING)
def test_it_names_the_setting_that_it_needs(held: HeldDatabase, kind: str) -> None:
    document = held.document("slot", type="logical") if kind == "slot" else held.document(kind)
    process = held.run(document)
    process.wait_end(5)
    assert process.exit_code == 3
    assert process.messages() == []
    assert f"cannot go on: {NEEDS_A_SETTING[kind]}" in process.tail_log()
    assert held.leftovers() == []


def test_a_reader_on_a_replica_holds_nothing_on_the_primary_and_is_ended_by_the_replay(held: HeldDatabase) -> None:
    process, holder = held.start(held.document("replica_reader", "replica-1"))
    held.delete_jobs()
    assert held.find(holder) is None
    assert held.kept_dead_rows() == 0
    wait_for(lambda: process.poll() is not None, "the longrunner's end", within_s=5)
    assert process.messages() == [{"lost": "40001: terminating connection due to conflict with recovery"}]
    assert process.exit_code == 3


def test_overlapping_readers_on_a_replica_are_cancelled_by_the_replay_and_come_back(held: HeldDatabase) -> None:
    process, _ = held.start(held.document("overlapping_readers", "replica-1", readers=2, each="20s"))
    held.delete_jobs()
    assert held.kept_dead_rows() == 0
    messages: list[dict[str, object]] = []

    def said(key: str) -> list[dict[str, object]]:
        messages.extend(process.messages())
        return [value for message in messages if isinstance(value := message.get(key), dict)]

    cancelled = wait_for(lambda: said("cancelled"), "the cancelled query")
    assert cancelled[0]["why"] == "40001: canceling statement due to conflict with recovery"
    wait_for(lambda: said("began"), "the query that follows it")
    assert process.poll() is None
