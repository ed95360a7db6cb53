"""The report of a real server: a session is described once, and every statement is whole, also among all figures."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from stallbench.engines.postgres.driver import connect
from stallbench.observe.observer import Observation
from stallbench.observe.screen import ObserveScreen
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import observer_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OpenConnection = Callable[..., Connection]


def report_of(observation: Observation, width: int, *, shows_all: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None, highlight=False)
    ObserveScreen(console, shows_all=shows_all).print(observation)
    return file.getvalue()


@pytest.fixture
def held_and_blocked(
    database: TestDatabase, open_connection: OpenConnection, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, Observation]:
    """The process id of a session that holds the horizon and a lock for which another one waits, and what is said of it."""
    monkeypatch.setattr("stallbench.observe.postgres.horizon.LONG_TRANSACTION_S", 0.0)
    holder, worker = open_connection(database.direct, "metabase"), open_connection(database.direct, "worker")
    with connect(database.direct, "fixture") as admin:
        admin.execute("CREATE TABLE jobs (n int)")
    holder.execute("BEGIN")
    holder.execute("INSERT INTO jobs VALUES (1)")
    holder.execute("LOCK TABLE jobs")
    worker.pgconn.send_query(b"SELECT count(*) FROM jobs")
    pid = holder.info.backend_pid

    def find() -> Observation | None:
        with observer_of(database.direct) as observer:
            observation = observer.read()
        said = [one.sentence for one in observation.findings if f"Session {pid} " in one.sentence]
        return observation if any("holds the horizon" in one and "blocks 1 session" in one for one in said) else None

    return pid, wait_for(find, "a finding that says both")


def test_a_session_is_described_once(held_and_blocked: tuple[int, Observation]) -> None:
    pid, observation = held_and_blocked
    report = " ".join(report_of(observation, 160, shows_all=False).split())
    assert report.count(f'Session {pid} ("stallbench:metabase"') == 1
    assert report.count("last statement: LOCK TABLE jobs") == 1
    assert f"Session {pid} blocks 1 session" in report


def test_that_claims_are_not_timed_matters_only_while_a_job_waits(database: TestDatabase) -> None:
    def is_named(observation: Observation) -> bool:
        return "time and buffers of statements" in report_of(observation, 160, shows_all=False)

    with opened_queue("que", {}, database.direct, "fixture") as queue:
        queue.install()
        with observer_of(database.direct) as observer:
            assert not is_named(observer.read())
            queue.enqueue([NewJob(payload="{}")])
            wait_for(lambda: is_named(observer.read(reads_everything=True)), "what cannot be seen, a second after the enqueue")


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_statements_are_whole_among_all_figures(held_and_blocked: tuple[int, Observation], width: int) -> None:
    pid, observation = held_and_blocked
    lines = [line.strip() for line in report_of(observation, width, shows_all=True).splitlines()]
    assert lines.count(f"SELECT pg_terminate_backend({pid});") == 2, "below the finding, and below the holders of the horizon"
