"""Longrunners on servers at PostgreSQL's defaults: what cannot hold says which setting it needs, and a replica
without feedback ends its readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stallbench.engines.database import Database
from stallbench.engines.postgres.server import DATABASE
from stallbench.processes.process import Process
from tests.integration.held_database import HeldDatabase
from tests.integration.running_cluster import running_cluster
from tests.waiting import PATIENCE_S, wait_for

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
    process.wait_end(PATIENCE_S)
    assert process.exit_code == 3
    assert process.messages() == []
    assert f"cannot continue: {NEEDS_A_SETTING[kind]}" in process.tail_log()
    wait_for(lambda: not held.leftovers(), "the end of its session, which the server notices a moment later")


def begin_on_the_replica(held: HeldDatabase, kind: str, waits_in: str, **options: object) -> tuple[Process, dict[str, Any]]:
    """Start a longrunner when the replica has nothing left to replay, which might cancel what it begins with, and see that it holds.

    ``waits_in``: what its session then does. One that the replay meets between two statements is ended in other words.
    """
    replica = held.servers["replica-1"]
    position = held.primary.execute("SELECT pg_current_wal_lsn()").fetchone()
    replayed = "SELECT pg_last_wal_replay_lsn() >= %s"
    wait_for(lambda: replica.execute(replayed, position).fetchone() == (True,), "the replay of all that came before")
    process, holder = held.start(held.document(kind, "replica-1", **options))
    waits = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = %s"
    wait_for(lambda: replica.execute(waits, (holder["pid"], waits_in)).fetchone(), f"a session in {waits_in}")
    return process, holder


def test_a_reader_on_a_replica_holds_nothing_on_the_primary_and_replay_ends_it(held: HeldDatabase) -> None:
    process, holder = begin_on_the_replica(held, "replica_reader", "ClientRead")
    held.delete_jobs()
    assert held.find(holder) is None
    held.wait_until_vacuum_removes()
    wait_for(lambda: process.poll() is not None, "the longrunner's end")
    assert process.messages() == [{"lost": "40001: terminating connection due to conflict with recovery"}]
    assert process.exit_code == 3


def test_replay_cancels_overlapping_readers_on_a_replica_and_they_repeat_their_queries(held: HeldDatabase) -> None:
    process, _ = begin_on_the_replica(held, "overlapping_readers", "PgSleep", readers=2, each="1h")
    held.delete_jobs()
    held.wait_until_vacuum_removes()
    messages: list[dict[str, object]] = []

    def said(key: str) -> list[dict[str, object]]:
        messages.extend(process.messages())
        return [value for message in messages if isinstance(value := message.get(key), dict)]

    cancelled = wait_for(lambda: said("cancelled"), "the cancelled query")
    assert cancelled[0]["why"] == "40001: canceling statement due to conflict with recovery"
    wait_for(lambda: said("began"), "the query that follows it")
    assert process.poll() is None
