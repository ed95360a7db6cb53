"""Deadlocks between real sessions, as `stallbench observe` counts and shows them; also for a user who may not read their listing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import psycopg
import pymysql
import pytest
from pydantic import SecretStr

from stallbench.engines import driver_of
from stallbench.engines.innodb.collectors.locks import read_blocked, read_deadlock_count
from stallbench.engines.postgres.driver import connect
from stallbench.observe.observer import Observation
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import Connection, EmptyOn, TestDatabase
from tests.integration.observed import cannot_see, finding_about, innodb_observer_of, observer_of, section_of, text_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

BLOCKED = "Blocked sessions"


@pytest.fixture(params=["mariadb", "mysql"])
def innodb(empty_on: EmptyOn, request: pytest.FixtureRequest) -> Endpoint:
    """A database with a table of two rows."""
    endpoint = empty_on(request.param)
    with administrator_of(endpoint) as cursor:
        cursor.execute("CREATE TABLE jobs (id int PRIMARY KEY, attempts int)")
        cursor.execute("INSERT INTO jobs VALUES (1, 0), (2, 0)")
    return endpoint


@contextmanager
def administrator_of(endpoint: Endpoint) -> Iterator[Any]:
    connection = driver_of("mariadb").connect(endpoint, "test")
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


@contextmanager
def user_without_process(endpoint: Endpoint) -> Iterator[Endpoint]:
    """A user who may read the database and nothing else."""
    with administrator_of(endpoint) as cursor:
        cursor.execute("CREATE USER few@'127.0.0.1' IDENTIFIED BY 'secret'")
        cursor.execute(f"GRANT SELECT ON {endpoint.database}.* TO few@'127.0.0.1'")
        try:
            yield endpoint.model_copy(update={"user": "few", "password": SecretStr("secret")})
        finally:
            cursor.execute("DROP USER few@'127.0.0.1'")


def deadlock(sessions: Sequence[Any], error: type[Exception]) -> None:
    """Let each of two sessions change one row and then the other one's; returns when the server has rolled one of them back."""
    for row, session in enumerate(sessions, 1):
        session.execute("BEGIN")
        session.execute(f"UPDATE jobs SET attempts = 1 WHERE id = {row}")
    broken: list[str] = []

    def change(session: Any, row: int) -> None:
        try:
            session.execute(f"UPDATE jobs SET attempts = 2 WHERE id = {row}")
        except error as caught:
            broken.append(str(caught))
        finally:
            session.execute("ROLLBACK")

    threads = [Thread(target=change, args=pair) for pair in zip(sessions, (2, 1), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(broken) == 1
    assert "deadlock" in broken[0].lower()


def deadlock_on_innodb(endpoint: Endpoint) -> None:
    with administrator_of(endpoint) as first, administrator_of(endpoint) as second:
        deadlock((first, second), pymysql.OperationalError)


def test_innodb_s_new_deadlock_is_counted_and_its_statements_are_shown(innodb: Endpoint) -> None:
    with innodb_observer_of(innodb) as observer:
        before = observer.read()
        assert not [one for one in before.findings if one.about == "deadlocks"]
        deadlock_on_innodb(innodb)
        observation = observer.read(reads_everything=True)
        later = observer.read(reads_everything=True)
    finding = finding_about(observation, "The server broke 1 deadlock in the last ")
    assert "UPDATE jobs SET attempts = ? WHERE id = ? / UPDATE jobs SET attempts = ? WHERE id = ?" in finding.sentence
    assert not [one for one in later.findings if one.about == "deadlocks"], "it is new only once"


@pytest.mark.long
def test_a_deadlock_whose_victim_completed_the_cycle_of_waits_is_counted(innodb: Endpoint) -> None:
    """Older versions of MySQL have a counter that leaves it out."""
    with administrator_of(innodb) as counting, administrator_of(innodb) as heavy, administrator_of(innodb) as light:
        before = read_deadlock_count(counting.connection)
        for session in (heavy, light):
            session.execute("BEGIN")
        heavy.execute("INSERT INTO jobs VALUES (3, 0), (4, 0), (5, 0), (6, 0), (7, 0)")
        heavy.execute("UPDATE jobs SET attempts = 1 WHERE id = 1")
        light.execute("UPDATE jobs SET attempts = 1 WHERE id = 2")
        waiting = Thread(target=heavy.execute, args=("UPDATE jobs SET attempts = 2 WHERE id = 2",))
        waiting.start()
        wait_for(lambda: read_blocked(counting.connection), "the session that waits")
        with pytest.raises(pymysql.OperationalError, match="Deadlock"):
            light.execute("UPDATE jobs SET attempts = 2 WHERE id = 1")
        waiting.join()
        heavy.execute("ROLLBACK")
        after = read_deadlock_count(counting.connection)
    assert before is not None
    assert after == before + 1


def test_without_process_a_deadlock_hides_nothing_but_its_listing(innodb: Endpoint) -> None:
    with user_without_process(innodb) as few, innodb_observer_of(few) as observer:
        observer.read()
        deadlock_on_innodb(innodb)
        observation = observer.read(reads_everything=True)
        later = observer.read(reads_everything=True)
    for one in (observation, later):
        assert "No session waits for a row lock." in text_of(section_of(one, BLOCKED))
    hidden = cannot_see(observation)
    if innodb.engine == "mariadb":
        assert "The server broke 1 deadlock" in finding_about(observation, "deadlock").sentence
        assert "the statements of the latest deadlock: " in hidden
        assert not [one for one in later.findings if one.about == "deadlocks"], "it is new only once"
    else:
        assert "the number of deadlocks: " in hidden
    assert "PROCESS" in hidden


def test_without_process_it_does_not_say_that_nobody_waits(innodb: Endpoint) -> None:
    with user_without_process(innodb) as few, administrator_of(innodb) as blocker, administrator_of(innodb) as blocked:
        blocker.execute("BEGIN")
        blocker.execute("UPDATE jobs SET attempts = 1 WHERE id = 1")
        waiting = Thread(target=blocked.execute, args=("UPDATE jobs SET attempts = 2 WHERE id = 1",))
        waiting.start()
        try:
            with innodb_observer_of(few) as observer:
                observation = wait_for(
                    lambda: (
                        one
                        if "who blocks 1 waiting session: " in cannot_see(one := observer.read(reads_everything=True))
                        else None
                    ),
                    "the session that waits",
                )
        finally:
            blocker.execute("ROLLBACK")
            waiting.join()
    assert "No session waits" not in text_of(section_of(observation, BLOCKED))


def test_postgres_s_new_deadlock_is_counted(database: TestDatabase, open_connection: Callable[..., Connection]) -> None:
    with connect(database.direct, "fixture") as admin:
        admin.execute("CREATE TABLE jobs (id int PRIMARY KEY, attempts int)")
        admin.execute("INSERT INTO jobs VALUES (1, 0), (2, 0)")
    with observer_of(database.direct) as observer:
        before = observer.read()
        assert not [one for one in before.findings if one.about == "deadlocks"]
        assert "0 deadlocks" in text_of(section_of(before, BLOCKED))
        sessions = [open_connection(database.direct, f"worker-{number}") for number in (1, 2)]
        deadlock(sessions, psycopg.errors.DeadlockDetected)
        for session in sessions:
            session.close()  # a session reports what it counted at its end at the latest

        def find() -> Observation | None:
            observation = observer.read(reads_everything=True)
            return observation if any(one.about == "deadlocks" for one in observation.findings) else None

        observation = wait_for(find, "the deadlock")
        finding = finding_about(observation, "The server broke 1 deadlock in the last ")
        assert "was rolled back" in finding.because
        assert "1 deadlock " in text_of(section_of(observation, BLOCKED))
        assert not [one for one in observer.read(reads_everything=True).findings if one.about == "deadlocks"]
