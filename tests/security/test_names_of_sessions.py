"""Every user names his sessions as he likes: one that is named like the bench's own, or like pg_dump, hides nothing and lets nobody else be blamed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.postgres.collectors.horizon import HorizonCollector
from stallbench.engines.postgres.collectors.sessions import SessionsCollector
from stallbench.engines.postgres.collectors.waits import WaitsCollector
from tests.integration.conftest import EmptyOn
from tests.integration.observed import look_at, section_of
from tests.integration.test_observe_notifications import NOTIFY
from tests.integration.waiting_sessions import Sessions, pid_of, sessions_on, statements_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration
SNAPSHOT = ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class")


@pytest.fixture
def sessions(empty_on: EmptyOn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    """A server on which a transaction of a second is long."""
    monkeypatch.setattr("stallbench.observe.postgres.horizon.LONG_TRANSACTION_S", 1.0)
    monkeypatch.setattr("stallbench.observe.postgres.notifications.LISTENER_TRANSACTION_S", 1.0)
    with sessions_on(empty_on("postgres")) as opened:
        yield opened


@pytest.mark.parametrize("name", ["observe", "collector:horizon"])
def test_a_holder_with_a_name_of_the_bench_is_the_one_that_is_named(sessions: Sessions, name: str) -> None:
    attacker = sessions.open(name, *SNAPSHOT)
    sessions.admin.execute("CREATE TABLE written (n int)")
    innocent = sessions.open("payments", *SNAPSHOT)
    time.sleep(1.1)
    observation = look_at(sessions.endpoint)
    oldest, *_ = section_of(observation, "Who holds the horizon").rows
    assert f"session {pid_of(attacker)} " in oldest[0], "the attacker's comes first, and not the innocent one"
    worst = next(one for one in observation.findings if "holds the horizon" in one.sentence)
    assert f"ession {pid_of(attacker)} " in worst.sentence
    assert worst.statement == f"SELECT pg_terminate_backend({pid_of(attacker)});"
    assert f"({pid_of(innocent)})" not in worst.statement


def test_a_run_records_a_holder_with_a_name_of_the_collectors(sessions: Sessions, tmp_path: Path) -> None:
    attacker = sessions.open("collector:horizon", *SNAPSHOT)
    server = WatchedServer(name="primary", role="primary", endpoint=sessions.endpoint)
    queue = WatchedQueue(kind="skip_locked", tables=(), indexes=())
    document = CollectorsDocument(name="collectors", run_folder=tmp_path, interval_s=1, servers=(server,), queue=queue)
    time.sleep(1.1)
    with closing(HorizonCollector(document)) as collector:
        recorded = {str(one.value) for one in collector.sample() if one.metric == "pid"}
    assert str(pid_of(attacker)) in recorded


def test_a_run_counts_sessions_with_a_name_of_the_collectors_and_not_its_own(sessions: Sessions, tmp_path: Path) -> None:
    server = WatchedServer(name="primary", role="primary", endpoint=sessions.endpoint)
    queue = WatchedQueue(kind="skip_locked", tables=(), indexes=())
    document = CollectorsDocument(name="collectors", run_folder=tmp_path, interval_s=1, servers=(server,), queue=queue)
    with closing(SessionsCollector(document)) as counting, closing(WaitsCollector(document)) as waiting:
        assert list(waiting.sample()) == [], "nobody but the collector is active"
        before = {str(one.subject): one.value for one in counting.sample()}
        sessions.open("collector:sessions", *SNAPSHOT)
        after = {str(one.subject): one.value for one in counting.sample()}
    assert "session:idle in transaction" not in before
    assert after["session:idle in transaction"] == 1


def test_a_listener_with_the_name_of_a_dump_lets_nobody_else_be_accused(sessions: Sessions) -> None:
    attacker = sessions.open("x", "SET application_name = 'pg_dump'", "LISTEN jobs", "BEGIN", "SELECT 1")
    innocent = sessions.open("payments", "BEGIN", "SELECT 1")
    sessions.admin.execute(NOTIFY)

    def find() -> str | None:
        observation = look_at(sessions.endpoint)
        found = [one for one in observation.findings if one.subject == "notifications" and str(pid_of(innocent)) in one.sentence]
        return found[0].sentence if found and not found[0].statement else None

    assert f"ession {pid_of(attacker)} " in wait_for(find, "a finding that accuses nobody")
    assert f"({pid_of(innocent)})" not in statements_of(look_at(sessions.endpoint))
