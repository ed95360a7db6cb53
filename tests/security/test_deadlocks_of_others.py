"""A server describes the deadlocks of all its databases: nothing that the bench records of those of others has a value of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import psycopg
import pymysql
import pytest

from stallbench.engines import driver_of
from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.deadlocks.deadlock import Deadlock
from stallbench.engines.innodb.collectors.deadlocks import InnoDBDeadlocksCollector
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from tests.end_to_end.conftest import Bench, bench
from tests.integration.conftest import EmptyOn, TestDatabase
from tests.waiting import wait_for

__all__ = ["bench"]
pytestmark = pytest.mark.integration
SECRET = "alice@example.com"
KEYS = (471_100_001, 471_100_002)
EXPECTATIONS = '[[expect]]\nmetric = "oldest_transaction_s.max"\nat_most = 600\n'


def execute(session: Any, statement: str) -> None:
    with session.cursor() as cursor:
        cursor.execute(statement)


def deadlock_of_others(endpoint: Endpoint) -> None:
    """Let two sessions of a database each change a row and then the other's."""
    driver = driver_of(endpoint.engine)
    with ExitStack() as stack:
        sessions = [stack.enter_context(closing(driver.connect(endpoint, f"shop-{number}"))) for number in (1, 2)]
        execute(sessions[0], "CREATE TABLE customers (id bigint PRIMARY KEY, mail varchar(50))")
        execute(sessions[0], f"INSERT INTO customers VALUES ({KEYS[0]}, ''), ({KEYS[1]}, '')")
        broken: list[Exception] = []
        both = Barrier(2)

        def change(session: Any, keys: Sequence[int]) -> None:
            try:
                execute(session, "BEGIN")
                execute(session, f"UPDATE customers SET mail = '{SECRET}' WHERE id = {keys[0]}")
                both.wait(60)
                execute(session, f"UPDATE customers SET mail = '{SECRET}' WHERE id = {keys[1]}")
            except (psycopg.Error, pymysql.Error) as error:
                broken.append(error)
            finally:
                execute(session, "ROLLBACK")

        threads = [Thread(target=change, args=pair) for pair in zip(sessions, (KEYS, KEYS[::-1]), strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(broken) == 1


def recorded_in(samples: Path) -> list[Deadlock]:
    listings = [line.split(",") for line in samples.read_text().splitlines()]
    return [Deadlock.from_sample_value(fields[4]) for fields in listings if fields[3] == "listing"]


def assert_has_no_value(deadlock: Deadlock) -> None:
    found = deadlock.to_json()
    assert "UPDATE customers SET mail = ? WHERE id = ?" in found
    assert not [value for value in (SECRET, *map(str, KEYS), f"{KEYS[0]:x}", f"{KEYS[1]:x}") if value in found]


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_a_run_records_no_value_of_a_deadlock_in_another_database(empty_on: EmptyOn, tmp_path: Path, engine: Any) -> None:
    shop, own = empty_on(engine), empty_on(engine)
    recorded = {}
    for where in (shop, own):
        server = WatchedServer(name="primary", role="primary", endpoint=where)
        queue = WatchedQueue(kind="laravel", tables=("jobs",), indexes=())
        document = CollectorsDocument(name="collectors", run_folder=tmp_path, interval_s=1, servers=(server,), queue=queue)
        if where is shop:
            deadlock_of_others(shop)
        with closing(InnoDBDeadlocksCollector(document)) as collector:
            (listing,) = [one.value for one in collector.sample() if one.metric == "listing"]
        recorded[where.database] = Deadlock.from_sample_value(str(listing))
    assert_has_no_value(recorded[own.database])
    assert SECRET in recorded[shop.database].to_json(), "those of its own database are described as a whole"


@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_observe_records_no_value_of_a_deadlock(
    engine: str, database: TestDatabase, empty_on: EmptyOn, bench: Bench, tmp_path: Path
) -> None:
    log: tuple[str, ...] = ()
    if engine == "postgres":
        endpoint, collector = database.direct, "deadlocks"
        log = ("--log", str(database.cluster.server("primary").log))
    else:
        endpoint, collector = empty_on("mariadb"), "innodb_deadlocks"
    expectations = tmp_path / "expectations.toml"
    expectations.write_text(EXPECTATIONS)
    scheme = {"postgres": "postgresql"}.get(engine, engine)
    address = f"{scheme}://{endpoint.user or 'root'}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
    asked = ("--dsn", address, "--every", "1s", "--for", "600s", "--expect", str(expectations), *log)
    process = bench.start("observe", *asked, environment={PASSWORD_VARIABLE: endpoint.password.get_secret_value()})
    try:
        samples = wait_for(lambda: next(iter(bench.runs.glob(f"*-observe/samples/{collector}.csv")), None), "the recording", 60)
        wait_for(samples.read_text, "the first samples", 60)
        deadlock_of_others(endpoint)
        recorded = wait_for(lambda: recorded_in(samples), "the recorded deadlock", 60)
    finally:
        process.terminate()
        out, err = process.communicate(timeout=600)
    assert_has_no_value(recorded[-1])
    kept = "".join(path.read_text(errors="replace") for path in samples.parents[1].rglob("*") if path.is_file())
    assert not [value for value in (SECRET, *map(str, KEYS)) if value in kept + out + err]
