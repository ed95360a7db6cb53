"""Sessions that wait for locks on a real MariaDB and MySQL: who is at the head of their chain, which ways end the wait, and what these do to others.

Each statement that is offered is executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from threading import Thread
from typing import Any

import pymysql
import pytest

from stallbench.observe.diagnostic import Finding
from stallbench.observe.observer import Observation
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.observed import cannot_see, section_of, text_of
from tests.integration.observed_states import record_state
from tests.integration.test_observe_innodb import connected, execute, look_at
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

RECORDS = "UPDATE performance_schema.setup_instruments SET enabled = '{}' WHERE name = 'wait/lock/metadata/sql/mdl'"
CHANGE = "ALTER TABLE jobs ADD COLUMN priority int"
CLAIM = "UPDATE jobs SET attempts = attempts + 1 WHERE id = {}"


class Session:
    """A session, which can execute a statement in a thread of its own."""

    def __init__(self, cursor: Any) -> None:
        self.cursor = cursor
        cursor.execute("SELECT connection_id()")
        ((self.number,),) = cursor.fetchall()
        self.error = ""
        self._thread: Thread | None = None

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.cursor.execute(statement)

    def send(self, statement: str) -> None:
        """Let it execute a statement, and do not wait for its end."""
        self._thread = Thread(target=self._run, args=(statement,), daemon=True)
        self._thread.start()

    def end(self) -> str:
        """Wait for the end of what was sent; returns the error, empty if it succeeded."""
        assert self._thread is not None
        self._thread.join(60)
        assert not self._thread.is_alive(), "it still waits"
        return self.error

    def _run(self, statement: str) -> None:
        try:
            self.cursor.execute(statement)
        except pymysql.Error as error:
            self.error = str(error)


class Sessions:
    """Opens sessions, and ends those that still wait at the end of the test."""

    def __init__(self, endpoint: Endpoint, stack: ExitStack) -> None:
        self.endpoint = endpoint
        self._stack = stack

    def open(self, *statements: str) -> Session:
        session = Session(self._stack.enter_context(connected(self.endpoint)))
        self._stack.callback(self._end, session)
        session.execute(*statements)
        return session

    def open_waiting(self, statement: str, *before: str) -> Session:
        """Open a session that waits for a lock with this statement."""
        session = self.open(*before)
        session.send(statement)
        wait_for(
            lambda: f"session {session.number} " in text_of(section_of(look_at(self.endpoint), "Blocked")), "a session that waits"
        )
        return session

    def find(self, *words: str) -> tuple[Observation, Finding]:
        """Look until a finding has all of these words."""

        def read() -> tuple[Observation, Finding] | None:
            observation = look_at(self.endpoint)
            found = [one for one in observation.findings if all(each in one.sentence for each in words)]
            return (observation, found[0]) if found else None

        return wait_for(read, f"a finding with the words {words}")

    def _end(self, session: Session) -> None:
        with suppress(pymysql.Error):
            execute(self.endpoint, f"KILL {session.number}")


@pytest.fixture(params=["mariadb", "mysql"])
def sessions(empty_on: EmptyOn, request: pytest.FixtureRequest) -> Iterator[Sessions]:
    """A database with a queue's table of ten jobs, on a server that records who holds metadata locks."""
    endpoint = empty_on(request.param)
    execute(
        endpoint,
        "CREATE TABLE jobs (id int PRIMARY KEY, attempts int)",
        "INSERT INTO jobs VALUES (1,0), (2,0), (3,0), (4,0), (5,0), (6,0), (7,0), (8,0), (9,0), (10,0)",
        RECORDS.format("YES"),
    )
    try:
        with ExitStack() as stack:
            yield Sessions(endpoint, stack)
    finally:
        execute(endpoint, RECORDS.format("NO" if endpoint.engine == "mariadb" else "YES"))


def statements_of(observation: Observation) -> list[str]:
    """Everything that the report offers to execute, also in its tables."""
    offered = [part for one in observation.findings for part in (one.statement, *(way.statement for way in one.other_ways))]
    return [*offered, *(row[-1] for row in section_of(observation, "Who holds purge back").rows)]


def assert_offers_none_for(observation: Observation, *victims: Session) -> None:
    for victim in victims:
        assert not {f"KILL {victim.number};", f"KILL QUERY {victim.number};"} & set(statements_of(observation))


def start_chain(sessions: Sessions, reader: Session) -> tuple[Session, list[Session], Observation, Finding]:
    """Let a change of the table wait for ``reader``, and six workers behind it."""
    change = sessions.open_waiting(CHANGE)
    workers = [sessions.open_waiting(CLAIM.format(number)) for number in range(1, 7)]
    words = f"blocks 7 sessions: 1 directly (the ALTER TABLE of session {change.number}), 6 behind it, the longest for"
    observation, finding = sessions.find(f"ession {reader.number} ", words)
    return change, workers, observation, finding


def test_a_change_that_waits_for_an_idle_transaction_can_be_cancelled_so_that_the_workers_continue(sessions: Sessions) -> None:
    reader = sessions.open("START TRANSACTION", "SELECT count(*) FROM jobs")
    change, workers, observation, finding = start_chain(sessions, reader)
    record_state(
        f"{sessions.endpoint.engine}: an ALTER TABLE waits for an idle transaction, and six workers wait behind it",
        "the idle transaction blocks all seven; cancelling the ALTER TABLE lets the workers continue, too",
        observation,
    )
    assert finding.statement == f"KILL {reader.number};"
    assert finding.caution.startswith("rolls its transaction back and closes its connection; the ALTER TABLE of session")
    (other,) = finding.other_ways
    assert other.statement == f"KILL QUERY {change.number};"
    assert other.caution.endswith("which must be repeated; the 6 sessions behind it continue")
    assert_offers_none_for(observation, *workers)
    execute(sessions.endpoint, other.statement)
    assert "interrupted" in change.end()
    assert [worker.end() for worker in workers] == [""] * 6
    reader.execute("SELECT count(*) FROM jobs")


def test_the_end_of_the_idle_transaction_lets_the_change_and_then_the_workers_continue(sessions: Sessions) -> None:
    reader = sessions.open("START TRANSACTION", "SELECT count(*) FROM jobs")
    change, workers, _, finding = start_chain(sessions, reader)
    execute(sessions.endpoint, finding.statement)
    assert [one.end() for one in (change, *workers)] == [""] * 7


def test_a_running_select_at_the_head_is_cancelled_and_its_session_stays(sessions: Sessions) -> None:
    reader = sessions.open()
    reader.send("SELECT count(*), sleep(300) FROM jobs WHERE id = 1")
    change, workers, observation, finding = start_chain(sessions, reader)
    record_state(
        f"{sessions.endpoint.engine}: an ALTER TABLE waits for a SELECT that runs for long, and six workers wait behind it",
        "the SELECT blocks all seven; cancelling it loses only its result, and its session can stay",
        observation,
    )
    assert finding.statement == f"KILL QUERY {reader.number};"
    assert finding.caution.startswith("ends its SELECT, of which only the result is lost; its connection stays")
    execute(sessions.endpoint, finding.statement)
    assert [one.end() for one in (change, *workers)] == [""] * 7
    reader.end()
    reader.execute("SELECT 1")


def test_workers_that_wait_for_one_row_are_behind_its_holder_and_not_to_be_ended(sessions: Sessions) -> None:
    holder = sessions.open("START TRANSACTION", CLAIM.format(1))
    workers = [sessions.open_waiting(CLAIM.format(1)) for _ in range(4)]
    observation, finding = sessions.find(f"ession {holder.number} ", "blocks 4 sessions, the longest for")
    record_state(
        f"{sessions.endpoint.engine}: four workers wait for one row that an idle transaction has changed",
        "the idle transaction blocks all four, which are victims",
        observation,
    )
    assert (finding.statement, finding.other_ways) == (f"KILL {holder.number};", ())
    assert_offers_none_for(observation, *workers)
    execute(sessions.endpoint, finding.statement)
    assert [worker.end() for worker in workers] == [""] * 4


def test_transactions_without_a_read_view_are_no_holders(sessions: Sessions) -> None:
    writer = sessions.open("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION", CLAIM.format(1))

    def read() -> Observation | None:
        observation = look_at(sessions.endpoint)
        sentences = text_of(section_of(observation, "Who holds purge back"))
        return observation if "1 transaction that is older than a second has no read view" in sentences else None

    observation = wait_for(read, "the transaction")
    record_state(
        f"{sessions.endpoint.engine}: a transaction has changed a row, and has no read view", "it holds nothing back", observation
    )
    assert not section_of(observation, "Who holds purge back").rows
    assert_offers_none_for(observation, writer)


def test_a_worker_that_waits_and_has_a_read_view_is_a_victim(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallbench.observe.innodb.horizon.LONG_TRANSACTION_S", 1.0)
    holder = sessions.open("START TRANSACTION", CLAIM.format(1))
    worker = sessions.open_waiting(CLAIM.format(1), "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT count(*) FROM jobs")
    observation, finding = sessions.find(f"ession {worker.number} ", "has had a read view", "blocks 1 session")
    record_state(
        f"{sessions.endpoint.engine}: a worker waits for a row of an idle transaction, and has the oldest read view",
        "the idle transaction is the cause; the worker continues when it has ended",
        observation,
    )
    assert f"It waits for session {holder.number}." in finding.sentence
    assert finding.statement == f"KILL {holder.number};"
    assert_offers_none_for(observation, worker)
    execute(sessions.endpoint, finding.statement)
    assert worker.end() == ""


def test_the_lock_of_get_lock_is_named_with_its_holder_which_has_no_transaction(sessions: Sessions) -> None:
    holder = sessions.open("SELECT get_lock('nightly', 0)")
    worker = sessions.open_waiting("SELECT get_lock('nightly', 300)")
    observation, finding = sessions.find(f"ession {holder.number} ", "blocks 1 session")
    record_state(
        f"{sessions.endpoint.engine}: a session waits in GET_LOCK for an idle session without a transaction",
        "the idle session holds it; no transaction is rolled back if it is ended",
        observation,
    )
    assert "It holds advisory lock 'nightly'." in finding.sentence
    assert finding.statement == f"KILL {holder.number};"
    assert finding.caution == "closes its connection; it has no transaction, so no change is undone"
    assert_offers_none_for(observation, worker)
    execute(sessions.endpoint, finding.statement)
    assert worker.end() == ""


def test_without_a_record_of_its_locks_only_the_statement_says_who_may_hold_that_of_get_lock(sessions: Sessions) -> None:
    execute(sessions.endpoint, RECORDS.format("NO"))
    holder = sessions.open("SELECT get_lock('nightly', 0)")
    worker = sessions.open_waiting("SELECT get_lock('nightly', 300)")
    observation, finding = sessions.find(
        "waits for a lock of GET_LOCK", f"its statement names a lock that session {holder.number} holds"
    )
    assert finding.statement == ""
    assert_offers_none_for(observation, holder, worker)
    assert "does not record metadata locks" in cannot_see(observation) or sessions.endpoint.engine == "mysql"
    holder.execute("DO release_lock('nightly')")
    assert worker.end() == ""


def test_without_a_record_of_locks_each_kind_of_lock_is_a_finding_of_its_own(sessions: Sessions) -> None:
    execute(sessions.endpoint, RECORDS.format("NO"))
    sessions.open("SELECT get_lock('nightly', 0)")
    worker = sessions.open_waiting("SELECT get_lock('nightly', 300)")
    reader = sessions.open("START TRANSACTION", "SELECT * FROM jobs")
    change = sessions.open_waiting("ALTER TABLE jobs ADD COLUMN n int")
    observation, for_metadata = sessions.find("1 session waits for a metadata lock", f"(session {change.number}: ")
    (for_advisory,) = [one for one in observation.findings if "1 session waits for a lock of GET_LOCK" in one.sentence]
    assert f"(session {worker.number}: " in for_advisory.sentence
    assert f"session {reader.number} " in for_metadata.sentence
