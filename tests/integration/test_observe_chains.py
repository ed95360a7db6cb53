"""Sessions that wait for locks on a real PostgreSQL: who is at the head of their chain, which ways end the wait, and what these do to others.

Each statement that is offered is executed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.observe.diagnostic import Finding
from stallbench.observe.observer import Observation
from tests.integration.conftest import Connection, EmptyOn, TestDatabase
from tests.integration.observed import look_at, section_of
from tests.integration.observed_states import record_state
from tests.integration.waiting_sessions import (
    CLAIM,
    Sessions,
    assert_offers_none_for,
    find_about,
    open_queue_sessions,
    pid_of,
)
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

CHANGE = "ALTER TABLE jobs ADD COLUMN priority int"


@pytest.fixture
def sessions(empty_on: EmptyOn) -> Iterator[Sessions]:
    """A server with a queue's table of ten jobs, and no other sessions."""
    with open_queue_sessions(empty_on("postgres")) as opened:
        yield opened


@pytest.fixture
def sessions_of_cluster(database: TestDatabase) -> Iterator[Sessions]:
    """The same in a database of the shared servers, which allow prepared transactions."""
    with open_queue_sessions(database.direct) as opened:
        yield opened


def start_chain(sessions: Sessions, reader: Connection) -> tuple[Connection, list[Connection]]:
    """Let a change of the table wait for ``reader``, and six workers behind it."""
    change = sessions.open_waiting("deploy", CHANGE)
    return change, [sessions.open_waiting(f"worker-{number}", CLAIM.format(number)) for number in range(1, 7)]


def find_chain(sessions: Sessions, reader: Connection, change: Connection) -> tuple[Observation, Finding]:
    observation, finding = find_about(sessions, f"ession {pid_of(reader)} ")
    assert f"blocks 7 sessions: 1 directly (the ALTER TABLE of session {pid_of(change)}), 6 behind it, the longest for" in (
        finding.sentence
    )
    return observation, finding


def test_a_change_that_waits_for_an_idle_transaction_can_be_cancelled_so_that_the_workers_continue(sessions: Sessions) -> None:
    reader = sessions.open("report", "BEGIN", "SELECT count(*) FROM jobs")
    change, workers = start_chain(sessions, reader)
    observation, finding = find_chain(sessions, reader, change)
    record_state(
        "an ALTER TABLE waits for an idle transaction, and six workers wait behind it",
        "the idle transaction blocks all seven; cancelling the ALTER TABLE lets the workers continue, too",
        observation,
    )
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(reader)});"
    assert finding.caution.startswith("rolls its transaction back and closes its connection; the ALTER TABLE of session")
    (other,) = finding.other_ways
    assert other.statement == f"SELECT pg_cancel_backend({pid_of(change)});"
    assert "which must be repeated" not in other.caution.partition(";")[2]
    assert other.caution.endswith("which must be repeated; the 6 sessions behind it continue")
    assert_offers_none_for(observation, *workers)
    rows = section_of(observation, "Blocked sessions").rows
    depths = [len(row[0]) - len(row[0].lstrip()) for row in rows]
    assert depths == [0, 0, *[3] * 6]
    assert [row[1] for row in rows] == ["7", "6", *[""] * 6]
    assert f"session {pid_of(change)} " in rows[1][0]
    sessions.admin.execute(other.statement.encode())
    assert "canceling statement due to user request" in sessions.end_of(change)
    assert [sessions.end_of(worker) for worker in workers] == [""] * 6
    assert reader.execute("SELECT count(*) FROM jobs").fetchone() == (10,), "its transaction goes on"


def test_the_end_of_the_idle_transaction_lets_the_change_and_then_the_workers_continue(sessions: Sessions) -> None:
    reader = sessions.open("report", "BEGIN", "SELECT count(*) FROM jobs")
    change, workers = start_chain(sessions, reader)
    _, finding = find_chain(sessions, reader, change)
    sessions.admin.execute(finding.statement.encode())
    assert sessions.end_of(change) == ""
    assert [sessions.end_of(worker) for worker in workers] == [""] * 6
    wait_for(lambda: not sessions.is_alive(reader), "the end of the session")


def test_a_running_statement_at_the_head_is_cancelled_and_its_session_stays(sessions: Sessions) -> None:
    reader = sessions.open("report")
    sessions.send(reader, "SELECT count(*), pg_sleep(600) FROM jobs")
    change, workers = start_chain(sessions, reader)
    observation, finding = find_chain(sessions, reader, change)
    record_state(
        "an ALTER TABLE waits for a SELECT that runs for long, and six workers wait behind it",
        "the SELECT blocks all seven; cancelling it loses only its result, and its session can stay",
        observation,
    )
    assert finding.statement == f"SELECT pg_cancel_backend({pid_of(reader)});"
    assert finding.caution.startswith("ends its SELECT, of which only the result is lost; its connection stays; the ALTER TABLE")
    sessions.admin.execute(finding.statement.encode())
    assert "canceling statement" in sessions.end_of(reader)
    assert [sessions.end_of(one) for one in (change, *workers)] == [""] * 7
    assert reader.execute("SELECT 1").fetchone() == (1,)


def test_a_transaction_whose_statement_is_cancelled_lets_go_of_what_it_holds(sessions: Sessions) -> None:
    writer = sessions.open("import", "BEGIN", CLAIM.format(1))
    sessions.send(writer, "SELECT pg_sleep(600)")
    worker = sessions.open_waiting("worker", CLAIM.format(1))
    _, finding = find_about(sessions, f"ession {pid_of(writer)} ")
    assert finding.statement == f"SELECT pg_cancel_backend({pid_of(writer)});"
    assert "ends its SELECT and rolls its transaction back; its connection stays" in finding.caution
    sessions.admin.execute(finding.statement.encode())
    assert sessions.end_of(worker) == ""
    assert sessions.is_alive(writer)
    assert sessions.admin.execute("SELECT attempts FROM jobs WHERE id = 1").fetchone() == (1,), "one of two changes was undone"


def test_workers_that_wait_for_one_row_are_behind_its_holder_and_not_to_be_ended(sessions: Sessions) -> None:
    holder = sessions.open("forgotten", "BEGIN", CLAIM.format(1))
    workers = [sessions.open_waiting(f"worker-{number}", CLAIM.format(1)) for number in range(4)]
    observation, finding = find_about(sessions, f"ession {pid_of(holder)} ")
    record_state(
        "four workers wait for one row that an idle transaction has changed",
        "the idle transaction blocks all four; the workers, one of which holds the place in the queue, are victims",
        observation,
    )
    assert "blocks 4 sessions: 1 directly (the UPDATE of session" in finding.sentence
    assert (finding.statement, finding.other_ways) == (f"SELECT pg_terminate_backend({pid_of(holder)});", ())
    assert_offers_none_for(observation, *workers)
    sessions.admin.execute(finding.statement.encode())
    assert [sessions.end_of(worker) for worker in workers] == [""] * 4


@pytest.mark.parametrize(("given", "shown"), [("42", "42"), ("-5", "-5"), ("7, -1", "7, -1"), (str(2**40 + 3), str(2**40 + 3))])
def test_an_advisory_lock_is_named_as_the_application_writes_it(sessions: Sessions, given: str, shown: str) -> None:
    holder = sessions.open("leader", f"SELECT pg_advisory_lock({given})")
    workers = [sessions.open_waiting(f"follower-{number}", f"SELECT pg_advisory_lock({given})") for number in (1, 2)]
    observation, finding = find_about(sessions, f"ession {pid_of(holder)} ")
    record_state(
        f"two sessions wait for the advisory lock {given} of an idle session without a transaction",
        "the idle session holds it; only its own pg_advisory_unlock or its end releases it, and no transaction is rolled back",
        observation,
    )
    assert f"It holds advisory lock {shown}. It is idle for" in finding.sentence
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(holder)});"
    assert finding.caution == "closes its connection; it has no transaction, so no change is undone"
    (other,) = finding.other_ways
    assert (other.statement, other.where) == (f"SELECT pg_catalog.pg_advisory_unlock({shown});", "in that session itself")
    assert_offers_none_for(observation, *workers)
    assert f"advisory lock {shown}" in section_of(observation, "Blocked sessions").rows[1][3]
    assert holder.execute(other.statement.encode()).fetchone() == (True,)
    assert sessions.end_of(workers[0]) == ""


def test_a_deadlock_that_the_server_has_not_broken_yet_is_one(sessions: Sessions) -> None:
    patient = "SET deadlock_timeout = '10min'"
    first = sessions.open("first", patient, "BEGIN", CLAIM.format(1))
    second = sessions.open("second", patient, "BEGIN", CLAIM.format(2))
    sessions.send(first, CLAIM.format(2))
    sessions.send(second, CLAIM.format(1))
    observation, finding = find_about(sessions, "wait for each other")
    record_state(
        "two sessions wait for each other, with a deadlock_timeout of ten minutes",
        "neither is a victim of a third one: one of the two statements has to be cancelled",
        observation,
    )
    assert finding.statement == f"SELECT pg_cancel_backend({pid_of(second)});"
    assert finding.caution.endswith("; the others continue")
    sessions.admin.execute(finding.statement.encode())
    assert "canceling statement" in sessions.end_of(second)
    assert sessions.end_of(first) == ""


def test_a_prepared_transaction_at_the_head_can_be_rolled_back_or_committed(sessions_of_cluster: Sessions) -> None:
    sessions = sessions_of_cluster
    preparing = sessions.open("preparing", "BEGIN", CLAIM.format(1), "PREPARE TRANSACTION 'it''s here'")
    preparing.close()
    workers = [sessions.open_waiting(f"worker-{number}", CLAIM.format(1)) for number in (1, 2)]
    observation, finding = find_about(sessions, "blocks 2 sessions")
    record_state(
        "two workers wait for a row that a prepared transaction has changed",
        "the prepared transaction blocks them; ROLLBACK PREPARED or COMMIT PREPARED ends it",
        observation,
    )
    assert "repared transaction it's here " in finding.sentence
    assert finding.statement == "ROLLBACK PREPARED 'it''s here';"
    (other,) = finding.other_ways
    assert other.statement == "COMMIT PREPARED 'it''s here';"
    assert_offers_none_for(observation, *workers)
    sessions.admin.execute(other.statement.encode())
    assert [sessions.end_of(worker) for worker in workers] == [""] * 2


def test_a_row_that_several_have_locked_is_awaited_from_one_after_the_other(sessions: Sessions) -> None:
    """The server knows only for which of them the worker waits now."""
    holders = [sessions.open(f"reader-{number}", "BEGIN", "SELECT FROM jobs WHERE id = 1 FOR SHARE") for number in (1, 2)]
    worker = sessions.open_waiting("worker", CLAIM.format(1))
    ended = []
    for _ in holders:
        _, finding = find_about(sessions, "blocks 1 session")
        ended.append(finding.statement)
        sessions.admin.execute(finding.statement.encode())
    assert sorted(ended) == sorted(f"SELECT pg_terminate_backend({pid_of(one)});" for one in holders)
    assert sessions.end_of(worker) == ""


def test_parallel_workers_count_as_the_session_that_started_them(sessions: Sessions) -> None:
    reader = sessions.open("report", "SET max_parallel_workers_per_gather = 2")
    for setting in ("force_parallel_mode", "debug_parallel_query"):
        reader.execute(f"SELECT set_config('{setting}', 'on', false) FROM pg_settings WHERE name = '{setting}'".encode())
    sessions.send(reader, "SELECT count(*), pg_sleep(600) FROM jobs")
    wait_for(
        lambda: (
            sessions.admin.execute("SELECT FROM pg_stat_activity WHERE leader_pid = %s", (pid_of(reader),)).fetchone() is not None
        ),
        "a parallel worker",
    )
    change = sessions.open_waiting("deploy", CHANGE)
    observation, finding = find_about(sessions, "blocks 1 session")
    record_state(
        "an ALTER TABLE waits for a SELECT with parallel workers",
        "the SELECT blocks it, with its workers as one session",
        observation,
    )
    assert f"ession {pid_of(reader)} " in finding.sentence
    assert finding.statement == f"SELECT pg_cancel_backend({pid_of(reader)});"
    assert "parallel worker" not in str(section_of(observation, "Who holds").rows)
    sessions.admin.execute(finding.statement.encode())
    assert sessions.end_of(change) == ""


def test_one_that_waits_for_two_sessions_continues_only_after_both(sessions: Sessions) -> None:
    readers = [sessions.open(f"report-{number}", "BEGIN", "SELECT count(*) FROM jobs") for number in (1, 2)]
    change = sessions.open_waiting("deploy", CHANGE)
    # Each finding names the other session, too.
    _, finding = find_about(
        sessions, f"Session {pid_of(readers[0])} (", f"1 of them waits behind session {pid_of(readers[1])} as well."
    )
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(readers[0])});"
    sessions.admin.execute(finding.statement.encode())
    _, finding = find_about(sessions, f"Session {pid_of(readers[1])} (", "blocks 1 session")
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(readers[1])});"
    sessions.admin.execute(finding.statement.encode())
    assert sessions.end_of(change) == ""


def test_maintenance_at_the_head_must_be_repeated_when_it_is_cancelled(sessions: Sessions) -> None:
    sessions.admin.execute("INSERT INTO jobs SELECT id, 0 FROM generate_series(11, 50000) AS id")
    sessions.admin.execute("DELETE FROM jobs WHERE id > 10")
    vacuum = sessions.open("nightly", "SET vacuum_cost_delay = 100", "SET vacuum_cost_limit = 1")
    sessions.send(vacuum, "VACUUM jobs")
    progress = "SELECT FROM pg_stat_progress_vacuum WHERE pid = %s"
    wait_for(lambda: sessions.admin.execute(progress, (pid_of(vacuum),)).fetchone() is not None, "the vacuum")
    change = sessions.open_waiting("deploy", CHANGE)
    observation, finding = find_about(sessions, f"ession {pid_of(vacuum)} ", "blocks 1 session")
    record_state("ALTER TABLE waits for a VACUUM", "the VACUUM; it must be repeated after its cancellation", observation)
    assert finding.statement == f"SELECT pg_cancel_backend({pid_of(vacuum)});"
    assert finding.caution.startswith("ends its VACUUM, which must be repeated; its connection stays")
    sessions.admin.execute(finding.statement.encode())
    assert sessions.end_of(change) == ""


def test_a_short_wait_is_no_finding(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.blocking.BRIEF_S", 3600.0)
    sessions.open("holder", "BEGIN", CLAIM.format(1))
    sessions.open_waiting("worker", CLAIM.format(1))
    observation = look_at(sessions.endpoint)
    record_state("a worker waits for a row for a moment", "nothing is wrong", observation)
    assert section_of(observation, "Blocked sessions").rows
    assert not [one for one in observation.findings if "blocks" in one.sentence]
