"""What `stallbench observe` says on a replica alone, and of addresses that are no replica of the observed server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from stallbench.engines.database import Database
from stallbench.errors import BadInputError
from stallbench.observe.diagnostic import Finding
from stallbench.observe.observer import Observation
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.servers.cluster import Cluster
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import cannot_see, look_at, observer_of, section_of, text_of
from tests.integration.observed_states import record_state
from tests.integration.running_cluster import running_cluster
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


@pytest.fixture
def without_feedback(tmp_path: Path) -> Iterator[Cluster]:
    """A primary with Que's table, and a replica that sends no feedback and waits without limit for its sessions."""
    database = Database(
        replicas=1,
        hot_standby_feedback=False,
        settings={"fsync": False, "autovacuum": False},
        replica_settings={"max_standby_streaming_delay": -1},
    )
    with running_cluster(database, tmp_path) as started:
        with opened_queue("que", {}, started.cluster.server("primary").direct, "fixture") as queue:
            queue.install()
        wait_for(partial(has_come_to, started.cluster.server("replica-1").direct), "the table on the replica")
        yield started.cluster


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

            def read() -> Observation | None:
                observation = observer.read(reads_everything=True)
                return observation if [one for one in observation.findings if one.about == "primary"] else None

            observation = wait_for(read, "what the replica knows of the primary")
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


def test_on_a_replica_without_feedback_a_session_delays_the_replay_and_nothing_else_is_said_of_old_figures(
    without_feedback: Cluster, open_connection: OpenConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, replica = (without_feedback.server(name).direct for name in ("primary", "replica-1"))
    monkeypatch.setattr("stallbench.observe.postgres.horizon.LONG_TRANSACTION_S", 1.0)
    monkeypatch.setattr("stallbench.observe.postgres.horizon.OLD_REPLAY_S", 1.0)
    monkeypatch.setattr("stallbench.observe.postgres.queues._BEHIND_S", 0.5)
    writer, admin = open_connection(primary, "writer"), open_connection(replica, "admin")
    writer.execute("INSERT INTO que_jobs (job_class, run_at) SELECT 'job', now() - interval '1 h' FROM generate_series(1, 100)")
    wait_for(lambda: admin.execute("SELECT count(*) FROM que_jobs").fetchone() == (100,), "the jobs on the replica")
    reader = open_connection(replica, "reader")
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.execute("SELECT count(*) FROM que_jobs")
    writer.execute("DELETE FROM que_jobs")

    def is_blocked() -> bool:
        writer.execute("VACUUM que_jobs")
        waits = "SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event LIKE 'RecoveryConflict%'"
        return admin.execute(waits).fetchone() is not None

    wait_for(is_blocked, "a replay that waits for the session")
    pid = reader.info.backend_pid

    def read() -> tuple[Observation, Finding] | None:
        with observer_of(replica) as observer:
            observation = observer.read()
        found = [one for one in observation.findings if f"ession {pid} " in one.sentence]
        is_old = any(one.about == "replay" for one in observation.findings)
        return (observation, found[0]) if found and is_old else None

    observation, finding = wait_for(read, "a finding about the session")
    record_state(
        "only a replica without hot_standby_feedback is observed, on which a long query delays the replay",
        "that session; the jobs that seem to wait are done on the primary",
        observation,
    )
    assert "delays the replay" in finding.sentence
    assert "VACUUM cannot remove" not in finding.because
    assert "max_standby_streaming_delay = -1" in finding.because
    assert finding.statement == f"SELECT pg_terminate_backend({pid});"
    assert [one for one in observation.findings if one.about == "primary" or one.subject == "queues"] == []
    admin.execute(finding.statement.encode())
    wait_for(lambda: admin.execute("SELECT count(*) FROM que_jobs").fetchone() == (0,), "the replay")


def test_on_a_replica_with_feedback_a_session_holds_the_horizon_of_the_primary(
    replica: Endpoint, open_connection: OpenConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.horizon.LONG_TRANSACTION_S", 1.0)
    reader = open_connection(replica, "reader")
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.execute("SELECT count(*) FROM que_jobs")

    def read() -> Finding | None:
        found = [one for one in look_at(replica).findings if f"ession {reader.info.backend_pid} " in one.sentence]
        return found[0] if found else None

    finding = wait_for(read, "a finding about the session")
    assert "holds the horizon" in finding.sentence
    assert finding.because.startswith("VACUUM cannot remove any row that has died since")


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
