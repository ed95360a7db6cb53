"""What `stallbench observe` says on a replica alone, and of addresses that are no replica of the observed server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from stallbench.errors import BadInputError
from stallbench.observe.observer import Observation
from stallbench.processes.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import cannot_see, look_at, observer_of, section_of, text_of
from tests.integration.observed_states import record_state
from tests.integration.test_observe import has_come_to
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OpenConnection = Callable[..., Connection]


@pytest.fixture
def replica(database: TestDatabase) -> Endpoint:
    """The replica, with a database that has Que's table."""
    with opened_queue("que", {}, database.direct, "fixture") as queue:
        queue.install()
    endpoint = database.on(database.cluster.server("replica-1"))
    wait_for(partial(has_come_to, endpoint), "the table on the replica")
    return endpoint


def test_a_replica_alone_says_that_the_primary_has_an_old_transaction_which_only_it_can_name(
    database: TestDatabase, replica: Endpoint, open_connection: OpenConnection
) -> None:
    writer = open_connection(database.direct, "two-phase")
    writer.execute("BEGIN")
    writer.execute("CREATE TABLE written (n int)")
    writer.execute("PREPARE TRANSACTION 'forgotten'")
    try:
        writer.execute("CREATE TABLE later (n int)")
        with observer_of(replica) as observer:

            def look() -> Observation | None:
                observation = observer.look(reads_everything=True)
                return observation if [one for one in observation.findings if one.about == "primary"] else None

            observation = wait_for(look, "what the replica knows of the primary")
    finally:
        writer.execute("ROLLBACK PREPARED 'forgotten'")
    (finding,) = [one for one in observation.findings if one.about == "primary"]
    assert finding.sentence.startswith("On the primary, a transaction has been open for at least ")
    assert finding.sentence.endswith("Only the primary knows which.")
    assert finding.statement == ""
    assert "observe the primary" in cannot_see(observation)
    record_state("only a replica is observed; a prepared transaction on the primary", "only the primary knows which", observation)


def test_a_replica_alone_does_not_claim_to_know_of_dead_rows_and_vacuums(replica: Endpoint) -> None:
    observation = look_at(replica)
    section = section_of(observation, "Tables")
    (row,) = section.rows
    assert row[:4] == ("public.que_jobs", "unknown", "unknown", "unknown")
    assert "workers are unknown: only the primary has them" in text_of(section)
    assert "never" not in text_of(section)
    assert "No transaction of this replica is older" in text_of(section_of(observation, "Who holds"))


def test_a_replica_whose_replay_is_paused_says_that_its_figures_are_old(
    replica: Endpoint, open_connection: OpenConnection
) -> None:
    admin = open_connection(replica, "admin")
    admin.execute("SELECT pg_wal_replay_pause()")
    try:
        wait_for(lambda: admin.execute("SELECT pg_get_wal_replay_pause_state()").fetchone() == ("paused",), "a pause")
        observation = look_at(replica)
        (finding,) = [one for one in observation.findings if one.about == "replay"]
        admin.execute(finding.statement.encode())
        assert admin.execute("SELECT pg_is_wal_replay_paused()").fetchone() == (False,)
    finally:
        admin.execute("SELECT pg_wal_replay_resume()")
    record_state("the replay of the observed replica is paused", "all its figures are old; resuming ends it", observation)
    assert finding.sentence.startswith("This replica's replay is paused; ")
    assert finding.statement == "SELECT pg_wal_replay_resume();"
    assert [one for one in look_at(replica).findings if one.about == "replay"] == []


def test_an_address_that_is_no_replica_is_refused_with_the_names_that_stream(database: TestDatabase, replica: Endpoint) -> None:
    with pytest.raises(BadInputError, match=r"--dsn nope: no replica streams .* under this name; expected one of: replica-1"):
        look_at(database.direct, {"nope": replica})
    with pytest.raises(BadInputError, match="--dsn replica-1: this server is no replica: it is not in recovery"):
        look_at(database.direct, {"replica-1": database.direct})
    assert look_at(database.direct, {"replica-1": replica}).findings is not None


def test_a_replica_of_another_server_is_refused(
    database: TestDatabase, replica: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers of the bench are copies of one data folder and share its identifier, so the observed one is said to have another."""
    query = "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN 1 ELSE 2 END"
    monkeypatch.setattr("stallbench.observe.postgres.replicas._SYSTEM", query)
    with pytest.raises(BadInputError, match="--dsn replica-1: this is a replica of another server"):
        look_at(database.direct, {"replica-1": replica})
