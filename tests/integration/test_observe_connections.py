"""Real servers whose connections are in use up to the last: who has them, and what can be done from the inside and from the outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from pydantic import SecretStr

from stallbench.engines import driver_of
from stallbench.engines.postgres.driver import connect
from stallbench.observe.diagnostic import Severity
from stallbench.observe.observer import Observation
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import Connection
from tests.integration.engines import PrivateServers
from tests.integration.observed import finding_about, innodb_observer_of, look_at, section_of, text_of
from tests.integration.observed_states import record_state
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

LIMIT, RESERVED = 20, 3


class Crowd:
    """Sessions of an ordinary user on a server with few connections."""

    def __init__(self, administrator: Endpoint, stack: ExitStack) -> None:
        self.administrator = administrator
        self.ordinary = administrator.model_copy(update={"user": "app", "password": SecretStr("secret")})
        self._stack = stack

    def open(self, count: int, name: str = "web", endpoint: Endpoint | None = None) -> list[Connection]:
        """Open sessions that do nothing."""
        opened = [connect(endpoint or self.ordinary, name) for _ in range(count)]
        for session in opened:
            self._stack.callback(session.close)
        return opened

    def fill(self, endpoint: Endpoint, name: str) -> str:
        """Open sessions until the server refuses one; returns its words."""
        while True:
            try:
                self.open(1, name, endpoint)
            except psycopg.OperationalError as error:
                return str(error)


@pytest.fixture(scope="module")
def small_server(servers: PrivateServers) -> Iterator[Endpoint]:
    server = servers.start("postgres", {"max_connections": LIMIT, "superuser_reserved_connections": RESERVED, "fsync": False})
    with connect(server.endpoint, "fixture") as admin:
        admin.execute("CREATE ROLE app LOGIN PASSWORD 'secret'")
    yield server.endpoint
    server.stop()


@pytest.fixture
def crowd(small_server: Endpoint) -> Iterator[Crowd]:
    with ExitStack() as stack:
        yield Crowd(small_server, stack)
    with connect(small_server, "fixture") as admin:
        wait_for(
            lambda: (
                admin.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'").fetchone() == (1,)
            ),
            "the end of all sessions",
        )


def test_idle_sessions_of_one_application_that_take_almost_all_connections_are_named_and_can_be_ended(crowd: Crowd) -> None:
    idle = crowd.open(13)
    (busy,) = crowd.open(1)
    busy.execute("BEGIN")
    listening, locking = crowd.open(2)
    listening.execute("LISTEN jobs")
    locking.execute("SELECT pg_advisory_lock(1)")
    observation = look_at(crowd.administrator)
    record_state(
        "16 of 20 connections are those of one application, most of them idle",
        "the application's pool is too large; its idle sessions can be ended, its others not",
        observation,
    )
    finding = finding_about(observation, "are in use")
    assert finding.severity == Severity.CRITICAL
    assert "17 connections of 17 are in use (max_connections is 20, of which 3 are reserved)." in finding.sentence
    assert '16 of them are those of "stallbench:web" (user app): 15 idle, 1 idle in transaction.' in finding.sentence
    assert finding.caution.startswith("closes 13 idle connections of")
    with connect(crowd.administrator, "test") as admin:
        assert len(admin.execute(finding.statement.encode()).fetchall()) == 13
    for session in (busy, listening, locking):
        assert session.execute("SELECT 1").fetchone() == (1,)
    for session in idle:
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
    wait_for(lambda: "are in use" not in str(look_at(crowd.administrator).findings), "a report without that finding")


def test_the_limit_of_idle_time_that_is_offered_can_be_set(crowd: Crowd) -> None:
    crowd.open(15)
    (other,) = finding_about(look_at(crowd.administrator), "are in use").other_ways
    with connect(crowd.administrator, "test") as admin:
        admin.execute(other.statement.encode())
        try:
            (later,) = crowd.open(1)
            assert later.execute("SHOW idle_session_timeout").fetchone() == ("10min",)
        finally:
            admin.execute("ALTER ROLE app RESET idle_session_timeout")


def test_busy_sessions_that_take_almost_all_connections_are_named_and_not_ended(crowd: Crowd) -> None:
    for session in crowd.open(16):
        session.pgconn.send_query(b"SELECT pg_sleep(600)")
    observation = look_at(crowd.administrator)
    with connect(crowd.administrator, "test") as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
    record_state(
        "16 of 20 connections are those of one application, and busy",
        "the application is busy; nothing is to be ended",
        observation,
    )
    finding = finding_about(observation, "are in use")
    assert '"stallbench:web" (user app): 16 active.' in finding.sentence
    assert (finding.statement, finding.other_ways) == ("", ())


def test_half_of_the_connections_are_no_finding(crowd: Crowd) -> None:
    crowd.open(9)
    observation = look_at(crowd.administrator)
    record_state("half of the connections are idle sessions of one application", "nothing is wrong", observation)
    assert not [one for one in observation.findings if "are in use" in one.sentence]
    assert "10 client sessions of 17" in text_of(section_of(observation, "Connections"))


def test_an_ordinary_user_of_a_full_server_learns_who_can_still_connect(crowd: Crowd) -> None:
    assert "remaining connection slots are reserved" in crowd.fill(crowd.ordinary, "web")
    refused = look_at(crowd.ordinary)
    assert "give the address of a superuser" in refused.gone
    assert "ps -eo pid,etime,args | grep '[p]ostgres: '" in refused.gone
    observation = look_at(crowd.administrator)
    record_state(
        "every connection that ordinary users may have is an idle one of one application",
        "a superuser still sees who has them",
        observation,
    )
    assert '"stallbench:web" (user app): 17 idle' in finding_about(observation, "are in use").sentence


def test_a_server_without_any_connection_left_ends_the_command_with_what_can_be_done_from_outside(crowd: Crowd) -> None:
    crowd.fill(crowd.ordinary, "web")
    assert "too many clients already" in crowd.fill(crowd.administrator, "admin")
    ended = observe_once(crowd.administrator)
    assert ended.returncode == 3
    assert (
        "sorry, too many clients already; every connection is in use, also those that are reserved for superusers."
        in ended.stderr
    )
    assert "ps -eo pid,etime,args" in ended.stderr


def test_a_user_with_a_limit_of_its_own_learns_that_it_is_the_limit(crowd: Crowd) -> None:
    with connect(crowd.administrator, "test") as admin:
        admin.execute("ALTER ROLE app CONNECTION LIMIT 2")
        try:
            crowd.open(2)
            refused: Observation = look_at(crowd.ordinary)
        finally:
            admin.execute("ALTER ROLE app CONNECTION LIMIT -1")
    assert "as many connections as its CONNECTION LIMIT allows" in refused.gone


@pytest.fixture(scope="module")
def small_mariadb(servers: PrivateServers) -> Iterator[Endpoint]:
    server = servers.start("mariadb", {"max_connections": LIMIT})
    with driver_of("mariadb").connect(server.endpoint, "fixture") as admin, admin.cursor() as cursor:
        cursor.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'")
        cursor.execute(f"GRANT ALL ON `{server.endpoint.database}`.* TO app@'127.0.0.1'")
    yield server.endpoint
    server.stop()


def test_on_mariadb_idle_sessions_that_take_every_connection_are_named_and_can_be_ended(small_mariadb: Endpoint) -> None:
    ordinary = small_mariadb.model_copy(update={"user": "app", "password": SecretStr("secret")})
    with ExitStack() as stack:
        opened: list[Any] = []

        def fill() -> None:
            while True:
                opened.append(stack.enter_context(closing(driver_of("mariadb").connect(ordinary, "web"))))

        with pytest.raises(pymysql.OperationalError, match="Too many connections"):
            fill()
        with opened[0].cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        ended = observe_once(ordinary)
        assert ended.returncode == 3
        assert "one more is kept for a user with CONNECTION ADMIN" in ended.stderr
        assert "ss -tnp state established" in ended.stderr
        with innodb_observer_of(small_mariadb) as observer:
            observation = observer.read()
        record_state(
            "mariadb: every connection that ordinary users may have is one of one user, all but one idle",
            "the application's pool is too large; its idle sessions can be ended, the one in a transaction not",
            observation,
        )
        finding = finding_about(observation, "are in use")
        assert (
            f"{len(opened)} of them are those of user app, {len(opened) - 1} of which are idle outside a transaction"
            in finding.sentence
        )
        assert finding.only_shows
        with driver_of("mariadb").connect(small_mariadb, "test") as admin, admin.cursor() as cursor:
            cursor.execute(finding.statement)
            for (kill,) in cursor.fetchall():
                cursor.execute(kill)
        with opened[0].cursor() as cursor:
            cursor.execute("SELECT 1")
        with pytest.raises(pymysql.Error), opened[1].cursor() as cursor:
            cursor.execute("SELECT 1")


def observe_once(endpoint: Endpoint) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    scheme = "postgresql" if endpoint.engine == "postgres" else endpoint.engine
    address = f"{scheme}://{endpoint.user}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
    variable = "PGPASSWORD" if endpoint.engine == "postgres" else "MYSQL_PWD"
    return subprocess.run(
        [Path(sys.executable).parent / "stallbench", "observe", "--dsn", address, "--once"],
        env={**os.environ, variable: endpoint.password.get_secret_value()},
        capture_output=True,
        text=True,
        check=False,
    )
