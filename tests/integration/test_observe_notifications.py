"""Who keeps the queue of LISTEN and NOTIFY of a real PostgreSQL from being emptied: a listener in a transaction, also one without a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.observe.diagnostic import Finding
from stallbench.observe.observer import Observation
from tests.integration.conftest import EmptyOn
from tests.integration.observed import look_at, observer_of, section_of, text_of
from tests.integration.observed_states import record_state
from tests.integration.waiting_sessions import Sessions, find_about, pid_of, sessions_on
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

QUEUE = "The notification queue is"
NOTIFY = "SELECT count(pg_notify('jobs', number || repeat('x', 7000))) FROM generate_series(1, 100) AS number"
"""About 800 kB."""


@pytest.fixture
def sessions(empty_on: EmptyOn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    """A server on which a transaction of a second is long."""
    monkeypatch.setattr("stallbench.observe.postgres.notifications.LISTENER_TRANSACTION_S", 1.0)
    with sessions_on(empty_on("postgres")) as opened:
        yield opened


def is_empty(sessions: Sessions) -> bool:
    return sessions.admin.execute("SELECT pg_notification_queue_usage()").fetchone() == (0.0,)


def test_a_listener_in_a_transaction_without_a_snapshot_is_named(sessions: Sessions) -> None:
    listener = sessions.open("worker", "LISTEN jobs", "BEGIN", "SELECT 1")
    sessions.admin.execute(NOTIFY)
    (xmin,) = (
        sessions.admin.execute("SELECT backend_xmin FROM pg_stat_activity WHERE pid = %s", (pid_of(listener),)).fetchone() or ()
    )
    assert xmin is None, "it holds no horizon"
    observation, finding = find_about(sessions, QUEUE, f"session {pid_of(listener)} ")
    record_state(
        "a session listens and is idle in a transaction without a snapshot, while jobs are notified",
        "it keeps the notification queue from being emptied, and holds no horizon",
        observation,
    )
    assert "holds it back: no other session has been in one transaction since the queue began to fill" in finding.sentence
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(listener)});"
    sessions.admin.execute(finding.statement.encode())
    wait_for(lambda: is_empty(sessions), "an empty queue")


def test_of_several_sessions_in_a_transaction_none_is_accused(sessions: Sessions) -> None:
    listener = sessions.open("worker", "LISTEN jobs", "BEGIN", "SELECT 1")
    other = sessions.open("report", "BEGIN", "SELECT 1")
    sessions.admin.execute(NOTIFY)
    observation, finding = find_about(sessions, QUEUE, f"session {pid_of(listener)} ", f"session {pid_of(other)} ")
    record_state(
        "a listener and another session are idle in transactions, while jobs are notified",
        "the listener keeps the queue from being emptied; the server does not say which of the two it is",
        observation,
    )
    assert "one of 2 sessions holds it back" in finding.sentence
    assert finding.statement == ""


def test_of_several_the_one_that_was_seen_to_listen_is_named(sessions: Sessions) -> None:
    listener = sessions.open("worker", "LISTEN jobs")
    sessions.open("report", "BEGIN", "SELECT 1")
    with observer_of(sessions.endpoint) as observer:
        observer.read()
        listener.execute("BEGIN")
        listener.execute("SELECT 1")
        sessions.admin.execute(NOTIFY)

        def find() -> str | None:
            found = [one for one in observer.read(reads_everything=True).findings if QUEUE in one.sentence]
            return found[0].statement if found else None

        assert wait_for(find, "a finding about the queue") == f"SELECT pg_terminate_backend({pid_of(listener)});"


def test_a_session_in_a_transaction_beside_a_queue_that_is_read_is_innocent(sessions: Sessions) -> None:
    listener = sessions.open("worker", "LISTEN jobs")
    idle = sessions.open("report", "BEGIN", "SELECT 1")
    sessions.admin.execute(NOTIFY)
    listener.execute("SELECT 1")
    wait_for(lambda: is_empty(sessions), "a listener that has read everything")
    find_transaction = "SELECT FROM pg_stat_activity WHERE pid = %s AND xact_start < clock_timestamp() - interval '1 s'"
    wait_for(lambda: sessions.admin.execute(find_transaction, (pid_of(idle),)).fetchone() is not None, "a long transaction")
    observation = look_at(sessions.endpoint)
    record_state("a session is idle in a transaction, and all notifications are read", "the queue is empty", observation)
    assert not [one for one in observation.findings if QUEUE in one.sentence]
    assert "The notification queue is empty." in text_of(section_of(observation, "Notifications"))


def test_a_worker_whose_client_does_not_read_an_answer_is_no_listener(sessions: Sessions) -> None:
    worker = sessions.open("worker", "CREATE TABLE wide AS SELECT repeat('x', 1000) AS payload FROM generate_series(1, 50000)")
    sessions.send(worker, "SELECT payload FROM wide")
    with observer_of(sessions.endpoint) as observer:

        def find() -> tuple[Observation, Finding] | None:
            observation = observer.read(reads_everything=True)
            found = [one for one in observation.findings if "for its client to read" in one.sentence]
            return (observation, found[0]) if found else None

        observation, finding = wait_for(find, "a client that does not read")
    record_state(
        "a worker's client does not read the answer to its SELECT",
        "the session waits for its client, and keeps dead rows; nobody listens",
        observation,
    )
    assert "listener" not in finding.because
    assert finding.because.startswith("its statement cannot end before its client has read the answer")
    assert finding.sentence.count("holds the horizon") <= 1
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(worker)});"


def test_a_session_that_listens_and_whose_client_does_not_read_is_a_listener(sessions: Sessions) -> None:
    listener = sessions.open("worker", "LISTEN jobs")
    with observer_of(sessions.endpoint) as observer:
        observer.read()

        def find() -> Finding | None:
            sessions.admin.execute(NOTIFY)
            found = [one for one in observer.read(reads_everything=True).findings if "for its client to read" in one.sentence]
            return found[0] if found else None

        finding = wait_for(find, "a listener that does not read")
    assert finding.because.startswith("a listener that does not read keeps the notification queue")
    assert finding.statement == f"SELECT pg_terminate_backend({pid_of(listener)});"
