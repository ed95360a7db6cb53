"""Sessions that hold the horizon of a real PostgreSQL: one that waits for another session is a victim, and one that waits for nothing the cause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.observe.diagnostic import Finding
from stallbench.observe.observer import Observation
from tests.integration.conftest import EmptyOn
from tests.integration.observed import look_at, observer_of, section_of
from tests.integration.observed_states import record_state
from tests.integration.waiting_sessions import (
    CLAIM,
    Sessions,
    assert_offers_none_for,
    find_about,
    open_queue_sessions,
    pid_of,
    sessions_on,
)
from tests.waiting import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def sessions(empty_on: EmptyOn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    """A server with a queue's table of ten jobs, on which a second is long."""
    monkeypatch.setattr("stallbench.observe.postgres.horizon.LONG_TRANSACTION_S", 1.0)
    with open_queue_sessions(empty_on("postgres")) as opened:
        yield opened


def test_a_worker_that_waits_and_holds_the_horizon_is_a_victim(sessions: Sessions) -> None:
    worker = sessions.open("worker", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM jobs")
    holder = sessions.open("forgotten", "BEGIN", CLAIM.format(1))
    sessions.send(worker, CLAIM.format(1))
    observation, finding = find_about(sessions, f"ession {pid_of(worker)} ", "blocks 1 session")
    record_state(
        "a worker waits for a row of an idle transaction, and holds the horizon with an older snapshot",
        "the idle transaction is the cause; the worker continues when it has ended",
        observation,
    )
    assert "holds the horizon" in finding.sentence
    assert f"It waits for session {pid_of(holder)}" in finding.sentence
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(holder)});"
    assert observation.findings[0] == finding
    assert_offers_none_for(observation, worker)
    assert f"waits for session {pid_of(holder)}" in str(section_of(observation, "Who holds").rows)


def test_a_worker_that_waits_for_nothing_and_holds_the_horizon_is_the_cause(sessions: Sessions) -> None:
    worker = sessions.open("worker", "BEGIN", CLAIM.format(2))
    observation, finding = find_about(sessions, "holds the horizon")
    record_state(
        "a worker is idle in a transaction and waits for nothing",
        "it holds the horizon, and its end frees it",
        observation,
    )
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(worker)});"


def test_a_long_statement_that_holds_the_horizon_is_cancelled(sessions: Sessions) -> None:
    reader = sessions.open("report")
    sessions.send(reader, "SELECT count(*), pg_sleep(600) FROM jobs")
    _, finding = find_about(sessions, "holds the horizon")
    assert finding.statement == f"SELECT pg_cancel_backend({pid_of(reader)});"
    sessions.admin.execute(finding.statement.encode())
    assert "canceling statement" in sessions.end_of(reader)
    wait_for(lambda: not section_of(look_at(sessions.endpoint), "Who holds").rows, "a horizon that is free")
    assert sessions.is_alive(reader)


def test_who_is_to_be_ended_comes_before_the_many_that_wait_for_it(sessions: Sessions) -> None:
    migration = sessions.open("migration", "BEGIN", "ALTER TABLE jobs ADD COLUMN priority int")
    workers = [sessions.open_waiting(f"worker {number}", CLAIM.format(number)) for number in range(1, 5)]
    observation, finding = find_about(sessions, "blocks 4 sessions", "Other sessions that wait keep dead rows, too.")
    record_state(
        "a migration has altered the queue's table and is idle in its transaction; four workers wait",
        "the migration blocks all four, which hold the horizon only because they wait",
        observation,
    )
    assert observation.findings[0] == finding
    assert finding.sentence.startswith(f'Session {pid_of(migration)} ("stallbench:migration"')
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(migration)});"
    assert finding.sentence.count("stallbench:worker") == 1
    assert_offers_none_for(observation, *workers)


def test_a_transaction_in_another_database_is_named_if_the_snapshots_here_reach_back_to_it(sessions: Sessions) -> None:
    sessions.admin.execute("CREATE DATABASE elsewhere")
    try:
        elsewhere = sessions.endpoint.model_copy(update={"database": "elsewhere"})
        with sessions_on(elsewhere) as others:
            writer = others.open("billing", "BEGIN", "CREATE TABLE written (n int)")
            sessions.open("worker", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM jobs")
            with observer_of(sessions.endpoint) as observer:

                def find() -> tuple[Observation, Finding] | None:
                    observation = observer.read(reads_everything=True)
                    found = [one for one in observation.findings if "snapshots that sessions here have taken" in one.sentence]
                    return (observation, found[0]) if found else None

                observation, finding = wait_for(find, "a finding about the other database")
            record_state(
                "transactions on the queue overlap, while a session in another database is idle in a transaction that has written",
                "vacuums here leave what has died since that session began, until it ends",
                observation,
            )
            assert finding.sentence.startswith(f'Session {pid_of(writer)} ("stallbench:billing"')
            assert "database elsewhere" in finding.sentence
            assert finding.statement == f"SELECT pg_terminate_backend({pid_of(writer)});"
            assert observation.findings[0] == finding
    finally:
        sessions.admin.execute("DROP DATABASE elsewhere WITH (FORCE)")
