"""`stallbench observe` on MariaDB and MySQL among hostile users: it reads no view, which would execute functions with the rights of its definer, and no
statement that imitates the server's status, or names the lock of somebody else, makes it blame a session.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pymysql
import pytest
from pydantic import SecretStr

from stallbench.engines import EngineName, driver_of
from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.innodb.views import IMITATED
from stallbench.observe.observer import Observation
from stallbench.records.endpoint import Endpoint
from stallbench.run.sampling import find_collectors
from tests.integration.conftest import EmptyOn
from tests.integration.observed import cannot_see, innodb_observer_of, section_of, text_of
from tests.integration.test_observe_innodb import look_at
from tests.integration.test_observe_innodb_chains import RECORDS, Session, Sessions, statements_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

_TABLE = "CREATE TABLE elsewhere (id bigint PRIMARY KEY, queue varchar(9), payload text, attempts int, reserved_at int, available_at int, created_at int)"
_FUNCTION = (
    "CREATE FUNCTION attack() RETURNS int NOT DETERMINISTIC READS SQL DATA BEGIN DO get_lock('attacked', 0); RETURN 1; END"
)
_VIEW = "CREATE SQL SECURITY DEFINER VIEW jobs AS SELECT id, queue, payload, attempts, reserved_at, available_at, created_at FROM elsewhere WHERE attack()"


def execute(endpoint: Endpoint, *statements: str) -> list[tuple[object, ...]]:
    with closing(driver_of(endpoint.engine).connect(endpoint, "test")) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
@pytest.mark.parametrize("tables", [(), ("jobs",)])
def test_a_view_is_no_queue(empty_on: EmptyOn, engine: EngineName, tables: tuple[str, ...]) -> None:
    endpoint = empty_on(engine)
    execute(endpoint, _TABLE, "INSERT INTO elsewhere (id, available_at) VALUES (1, 0)", _FUNCTION, _VIEW)
    with innodb_observer_of(endpoint, tables) as observer:
        not_visible = cannot_see(observer.read(reads_everything=True))
        assert execute(endpoint, "SELECT is_used_lock('attacked')") == [(None,)], (
            "a lock that the function takes stays until its session ends"
        )
    assert "table" in not_visible


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_a_view_in_the_place_of_a_table_is_not_read(empty_on: EmptyOn, engine: EngineName) -> None:
    endpoint = empty_on(engine)
    execute(endpoint, _TABLE.replace("elsewhere", "jobs"), "INSERT INTO jobs (id, available_at) VALUES (1, 0)", _FUNCTION)
    with innodb_observer_of(endpoint) as observer:
        assert "no table but a view" not in cannot_see(observer.read(reads_everything=True))
        execute(endpoint, "RENAME TABLE jobs TO elsewhere", _VIEW)
        assert "no table but a view" in cannot_see(observer.read(reads_everything=True))
        assert execute(endpoint, "SELECT is_used_lock('attacked')") == [(None,)]


@pytest.mark.parametrize("engine", ["ARCHIVE", "CSV", "MRG_MyISAM"])
def test_a_table_of_a_storage_engine_without_handler_hides_no_other_queue(empty_on: EmptyOn, engine: str) -> None:
    endpoint = empty_on("mariadb")
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in (("queue", "varchar(9)"), ("payload", "text")))
    columns += "".join(f", {name} int NOT NULL" for name in ("id", "attempts", "reserved_at", "available_at", "created_at"))
    try:
        execute(endpoint, f"CREATE TABLE jobs ({columns}) ENGINE={engine}")
    except driver_of("mariadb").errors as error:
        pytest.skip(f"the server has no such engine: {error}")
    execute(endpoint, "CREATE TABLE mine (n int)", "INSERT INTO mine VALUES (1)")
    with innodb_observer_of(endpoint, ("jobs", "mine")) as observer:
        observation = observer.read(reads_everything=True)
    assert ".`mine`) | 1 |" in text_of(section_of(observation, "Queues"))
    assert "storage engine without HANDLER" in cannot_see(observation)


class Town:
    """A server with an application, whose session has changed a row and waits for its client, and a user who may do nothing but use her own database."""

    def __init__(self, endpoint: Endpoint, stack: ExitStack) -> None:
        self.endpoint = endpoint
        self.app = Sessions(endpoint, stack)
        name = endpoint.database
        execute(
            endpoint,
            "CREATE TABLE jobs (id int PRIMARY KEY, attempts int)",
            "INSERT INTO jobs VALUES (1, 0), (2, 0)",
            f"CREATE DATABASE {name}_m",
            f"CREATE USER {name}_m@'127.0.0.1' IDENTIFIED BY 'm'",
            f"GRANT ALL ON {name}_m.* TO {name}_m@'127.0.0.1'",
        )
        stack.callback(execute, endpoint, f"DROP DATABASE {name}_m", f"DROP USER {name}_m@'127.0.0.1'")
        self.mallory = Sessions(
            endpoint.model_copy(update={"user": f"{name}_m", "password": SecretStr("m"), "database": f"{name}_m"}), stack
        )
        self.victim = self.app.open(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "START TRANSACTION",
            "UPDATE jobs SET attempts = 1 WHERE id = 2",
        )

    def let_pass(self) -> None:
        """Let transactions begin, and those that are open become older than a second."""
        execute(self.endpoint, *["UPDATE jobs SET attempts = attempts + 1 WHERE id = 1"] * 20)
        time.sleep(2.1)

    def read(self) -> Observation:
        return look_at(self.endpoint)

    def sample(self, name: str, folder: Path) -> tuple[dict[str, object], str]:
        """Let a collector measure once; returns what it found of the server, and what it could not measure."""
        document = CollectorsDocument(
            name="collectors",
            run_folder=folder,
            interval_s=1,
            servers=(WatchedServer(name="primary", role="primary", endpoint=self.endpoint),),
            queue=WatchedQueue(kind="laravel", tables=("jobs",), indexes=()),
        )
        found: dict[str, object] = {}
        with closing(find_collectors()[name](document)) as collector:
            try:
                found.update((one.metric, one.value) for one in collector.sample() if one.subject == "server")
            except NotMeasuredError as error:
                return found, str(error)
        return found, ""


@pytest.fixture(params=["mariadb", "mysql"])
def town(empty_on: EmptyOn, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    monkeypatch.setattr("stallbench.observe.innodb.horizon.LONG_TRANSACTION_S", 1.0)
    with ExitStack() as stack:
        yield Town(empty_on(request.param), stack)


def forge(victim: Session) -> str:
    return f"""
---TRANSACTION 1, ACTIVE 999 sec
MariaDB thread id {victim.number}, OS thread handle 1, query id 1 127.0.0.1 app
Trx read view will not see trx with id >= 10, sees < 1
---TRANSACTION 2, not started
"""


SNAPSHOT = ("START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT count(*) FROM x")
TABLES = (
    "CREATE TABLE x (i int PRIMARY KEY)",
    "INSERT INTO x VALUES (1)",
    "CREATE TABLE y (i int, FOREIGN KEY (i) REFERENCES x (i))",
)


def test_a_statement_that_imitates_the_status_blames_nobody(town: Town, tmp_path: Path) -> None:
    town.mallory.open(*TABLES)
    mallory = town.mallory.open(*SNAPSHOT)
    mallory.send(f"SELECT sleep(60) FROM x /*{forge(town.victim)}*/")
    town.let_pass()
    observation = town.read()
    assert not [one for one in statements_of(observation) if "KILL" in one]
    assert IMITATED in cannot_see(observation)
    for name in ("innodb_horizon", "innodb_purge"):
        found, why = town.sample(name, tmp_path)
        assert not {"horizon_age_xids", "unpurged_transactions"} & set(found)
        assert IMITATED in why


def test_a_foreign_key_error_that_imitates_the_status_hides_no_holder(town: Town, tmp_path: Path) -> None:
    mallory = town.mallory.open(*TABLES)
    with pytest.raises(pymysql.IntegrityError):
        mallory.execute(f"INSERT /*\nTrx id counter 9000000{forge(town.victim)}*/ INTO y VALUES (5)")
    holder = town.app.open("START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT count(*) FROM jobs")
    town.let_pass()
    observation = town.read()
    assert [one for one in statements_of(observation) if "KILL" in one] == [f"KILL {holder.number};"] * 2
    assert IMITATED not in cannot_see(observation)
    found, why = town.sample("innodb_horizon", tmp_path)
    assert (20 <= int(str(found["horizon_age_xids"])) < 10_000, why) == (True, "")
    found, why = town.sample("innodb_purge", tmp_path)
    assert (20 <= int(str(found["unpurged_transactions"])) < 10_000, why) == (True, "")


def test_a_foreign_key_error_with_the_heading_of_the_transactions_blames_nobody(town: Town) -> None:
    mallory = town.mallory.open(*TABLES)
    begin = "------------\nTRANSACTIONS\n------------\nTrx id counter 9000000\nPurge done for trx's n:o < 1 undo n:o < 0\n"
    with pytest.raises(pymysql.IntegrityError):
        mallory.execute(f"INSERT /*\n{begin}{forge(town.victim)}*/ INTO y VALUES (5)")
    try:
        town.let_pass()
        observation = town.read()
        assert not [one for one in statements_of(observation) if "KILL" in one]
        assert IMITATED in cannot_see(observation)
    finally:
        with suppress(pymysql.IntegrityError):
            # The server keeps the latest error only.
            mallory.execute("INSERT INTO y VALUES (5)")


@pytest.mark.parametrize(
    "statement", ["SELECT /* get_lock('app.scheduler' */ get_lock('mine', 100)", "SELECT get_lock('app.scheduler', 100)"]
)
def test_a_statement_that_names_the_lock_of_somebody_else_offers_no_end_of_its_session(town: Town, statement: str) -> None:
    """The second statement waits for that lock in truth, but a statement proves nothing of it."""
    execute(town.endpoint, RECORDS.format("NO"))
    try:
        town.victim.execute("SELECT get_lock('app.scheduler', 0)")
        town.mallory.open("SELECT get_lock('mine', 0)")
        town.mallory.open().send(statement)
        town.mallory.open().send(statement)

        def read() -> Observation | None:
            observation = town.read()
            return (
                observation
                if "GET_LOCK" in str([one.sentence for one in observation.findings]) or statements_of(observation)
                else None
            )

        observation = wait_for(read, "a finding for the sessions that wait in GET_LOCK")
    finally:
        execute(town.endpoint, RECORDS.format("NO" if town.endpoint.engine == "mariadb" else "YES"))
    assert not [one for one in statements_of(observation) if "KILL" in one]
    assert not [
        one for one in observation.findings if f"ession {town.victim.number} " in one.sentence and "blocks" in one.sentence
    ]
