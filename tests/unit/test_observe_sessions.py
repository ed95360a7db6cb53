"""What `stallbench observe` takes for time of the server, and what it does when a server goes away, without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from pydantic import SecretStr

from stallbench.engines.innodb.views import OpenTransaction
from stallbench.engines.postgres.driver import DRIVER
from stallbench.engines.postgres.literals import LITERALS
from stallbench.observe import server_time
from stallbench.observe.diagnostic import Diagnostic, NotVisible, Reading, Section
from stallbench.observe.innodb import horizon
from stallbench.observe.innodb.sessions import InnoDBSessionDetails
from stallbench.observe.lock_waits import LockWaits
from stallbench.observe.observer import Observer, ServerGoneError
from stallbench.observe.postgres.session import ReadOnlySession
from stallbench.observe.wait_tree import WaitTree
from stallbench.records.endpoint import Endpoint

ROUND_TRIP_S = 0.02
ENDPOINT = Endpoint(engine="postgres", host="db.test", port=5432, database="app", user="me", password=SecretStr(""))


class FarConnection:
    """A connection to a server that works for no time, over a slow network."""

    closed = False
    clock_s = 0.0

    def __init__(self, fails: Callable[[], Exception | None] = lambda: None) -> None:
        self._fails = fails

    def monotonic(self) -> float:
        return self.clock_s

    transaction_status = TransactionStatus.IDLE

    @property
    def pgconn(self) -> FarConnection:
        return self

    info = pgconn

    server_version = 15_00_08

    def parameter_status(self, name: str) -> str | None:
        """A server in UTF-8."""
        return {"server_encoding": "UTF8"}.get(name)

    def exec_(self, command: bytes) -> None:
        self.clock_s += ROUND_TRIP_S
        if error := self._fails():
            raise error

    def execute(self, query: str, values: Any = None, *, prepare: bool | None = None) -> FarConnection:
        self.exec_(query.encode())
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [("on",)]

    def fetchone(self) -> tuple[Any, ...]:
        return ("on",)

    def close(self) -> None:
        self.closed = True


def session_on(monkeypatch: pytest.MonkeyPatch, connection: FarConnection) -> ReadOnlySession:
    monkeypatch.setattr(ReadOnlySession, "_open", lambda self, options: connection)
    monkeypatch.setattr(server_time, "time", connection)
    return ReadOnlySession(ENDPOINT)


def test_the_round_trips_of_a_query_with_its_own_time_limit_are_not_time_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_on(monkeypatch, FarConnection())
    session.execute("SELECT 1")
    for _ in range(5):
        session.execute("SELECT 1", timeout_ms=250)
    assert session.spent_s == pytest.approx(0)


def test_a_server_that_restarts_while_the_connection_is_opened_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def shut_down() -> Exception:
        return psycopg.errors.AdminShutdown("terminating connection due to administrator command")

    with pytest.raises(ServerGoneError, match="terminating connection"):
        session_on(monkeypatch, FarConnection(shut_down))


class FakeSession:
    version_text = "15.8"
    spent_s = 0.0

    def close(self) -> None: ...


class LosingReplicas(Diagnostic):
    """Loses one replica at each attempt, and then meets ``end``."""

    name = what = "losing"
    position = 1

    def __init__(self, end: Exception | None = None) -> None:
        self.end = end

    def read(self, reading: Reading) -> Section:
        for name in reading.state.replicas:
            raise ServerGoneError(name, "is restarted")
        if self.end:
            raise self.end
        return Section(title="Read without replicas")


@pytest.mark.parametrize("end", [None, psycopg.errors.InsufficientPrivilege("refused")])
def test_replicas_that_are_lost_in_one_look_are_left_out(end: Exception | None) -> None:
    assert DRIVER, "the driver whose error it is must be loaded"
    observation = Observer(
        lambda name: FakeSession(),
        ("one", "two"),
        [LosingReplicas(end)],
        describe=lambda reading: "server",
        explain=lambda subject, error: NotVisible(what=subject.what, why=str(error)),
    ).read()
    assert not observation.gone
    assert [one.title for one in observation.sections] == ([] if end else ["Read without replicas"])
    assert [one.why for one in observation.not_visible] == (["refused"] if end else [])


def test_the_name_of_a_user_keeps_its_capital_letters() -> None:
    reader = OpenTransaction(thread_id=7, user="AppUser", state="sleep", age_s=400.0, view_age_xids=9)
    details = InnoDBSessionDetails(7, "AppUser", "Web1", "App", "sleep", 400.0, "", True, 0, False)
    tree = WaitTree(waits=LockWaits(), sessions={}, literals=LITERALS, name_without_session=str)
    finding = horizon._judge(reader, {7: details}, 10, None, tree)
    assert finding.sentence.startswith("Session 7 (user AppUser, from Web1, database App) has had a read view")
