"""What the collectors see of a real MariaDB in a real situation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from stallbench.engines import driver_of
from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.database import Database
from stallbench.engines.deadlocks.deadlock import Deadlock
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from stallbench.run.sampling import collectors_for, find_collectors
from stallbench.servers.cluster import Cluster
from stallbench.setup.server_programs import find_server
from tests import waiting
from tests.integration.running_cluster import StartedCluster, running_cluster

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_server("mariadb") is None, reason="MariaDB is not on this machine; `make setup` brings it"),
]

_POLL_EVERY_S = 0.25
"""InnoDB renews its lists of transactions and locks only if they have not been read for 0.1 s."""

Values = dict[tuple[str, str, str], Any]
Sample = Callable[[str], Values]


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartedCluster]:
    """A primary with Laravel's table and three jobs in it, and a replica."""
    with running_cluster(Database(engine="mariadb", replicas=1), tmp_path_factory.mktemp("mariadb")) as started:
        with opened_queue("laravel", {}, started.cluster.server("primary").direct, "fixture") as queue:
            queue.install()
            queue.enqueue([NewJob(payload="{}")] * 3)
        yield started


@pytest.fixture
def cluster(mariadb: StartedCluster) -> Cluster:
    """The servers."""
    return mariadb.cluster


@pytest.fixture
def sample(cluster: Cluster, tmp_path: Path) -> Sample:
    """Lets a collector measure once; returns values by source, subject and metric."""
    servers = tuple(WatchedServer(name=s.name, role=s.role, endpoint=s.direct, log=s.log) for s in cluster.servers)
    queue = WatchedQueue(kind="laravel", tables=("jobs",), indexes=("jobs_queue_index",))
    document = CollectorsDocument(name="collectors", run_folder=tmp_path, interval_s=1, servers=servers, queue=queue)

    def sample_once(name: str) -> Values:
        # A test that has to look often would else use up the server's connections.
        with closing(find_collectors()[name](document)) as collector:
            return {(one.source, one.subject, one.metric): one.value for one in collector.sample()}

    return sample_once


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[Callable[..., pymysql.Connection]]:
    """Opens connections under a name, on the primary or another server, that are closed when the test is over."""
    with ExitStack() as stack:

        def open_one(name: str, server: str = "primary") -> pymysql.Connection:
            connection = driver_of("mariadb").connect(cluster.server(server).direct, name)
            stack.callback(driver_of("mariadb").close, connection)
            return connection  # type: ignore[no-any-return]

        yield open_one


def run(connection: pymysql.Connection, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def wait_for(look: Callable[[], Any], what: str, within_s: float = 60) -> Any:
    return waiting.wait_for(look, what, within_s, every_s=_POLL_EVERY_S)


def test_every_collector_for_the_engine_samples(sample: Sample) -> None:
    names = list(collectors_for("mariadb"))
    assert len(names) >= 8
    for name in names:
        sample(name)


def test_the_plan_names_the_index(sample: Sample) -> None:
    assert "jobs: " in sample("plan")["primary", "claim", "plan"]


def test_sizes_are_seen(sample: Sample) -> None:
    values = sample("innodb_tables")
    assert values["primary", "table:jobs", "table_bytes"] > 0
    assert values["primary", "index:jobs_queue_index", "index_bytes"] > 0


def test_an_open_transaction_has_an_age(sample: Sample, connect: Callable[..., pymysql.Connection]) -> None:
    session = connect("idle", "replica-1")
    run(session, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    run(session, "SELECT count(*) FROM jobs")
    try:
        wait_for(
            lambda: sample("innodb_transactions")["replica-1", "server", "oldest_transaction_s"] >= 1, "a transaction of a second"
        )
    finally:
        run(session, "ROLLBACK")


def test_a_waiting_session_is_seen_with_the_session_that_blocks_it(
    sample: Sample, connect: Callable[..., pymysql.Connection]
) -> None:
    blocker, blocked = connect("blocker"), connect("blocked")
    run(blocker, "BEGIN")
    run(blocker, "SELECT * FROM jobs WHERE id = 1 FOR UPDATE")
    waiting = threading.Thread(target=run, args=(blocked, "UPDATE jobs SET attempts = attempts WHERE id = 1"))
    waiting.start()
    try:
        values = wait_for(
            lambda: {key: value for key, value in sample("innodb_locks").items() if key[1].startswith("blocked:")},
            "a blocked session",
        )
    finally:
        run(blocker, "ROLLBACK")
        waiting.join()
    (subject,) = {key[1] for key in values}
    assert values["primary", subject, "blocker_application"] == "blocker"
    assert "jobs" in values["primary", subject, "lock"]


def test_a_deadlock_is_counted_and_its_listing_read(sample: Sample, connect: Callable[..., pymysql.Connection]) -> None:
    before = sample("innodb_locks")["primary", "server", "deadlocks"]
    one, other = connect("worker-1"), connect("worker-2")
    for session, job in ((one, 1), (other, 2)):
        run(session, "BEGIN")
        run(session, f"UPDATE jobs SET attempts = 1 WHERE id = {job}")
    errors: list[Exception] = []

    def cross(session: pymysql.Connection, job: int) -> None:
        try:
            run(session, f"UPDATE jobs SET attempts = 2 WHERE id = {job}")
        except pymysql.MySQLError as error:
            errors.append(error)
        finally:
            run(session, "ROLLBACK")

    threads = [threading.Thread(target=cross, args=pair) for pair in ((one, 2), (other, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [error.args[0] for error in errors] == [1213]
    assert sample("innodb_locks")["primary", "server", "deadlocks"] == before + 1
    (listing,) = [value for (_, _, metric), value in sample("innodb_deadlocks").items() if metric == "listing"]
    deadlock = Deadlock.from_sample_value(listing)
    assert {transaction.user for transaction in deadlock.transactions} == {"worker-1", "worker-2"}


def test_a_replica_that_stops_is_reported(sample: Sample, connect: Callable[..., pymysql.Connection]) -> None:
    session = connect("test", "replica-1")
    run(session, "STOP SLAVE SQL_THREAD")
    try:
        values = sample("innodb_replication")
        assert values["replica-1", "replica-1", "state"] == "receiving: Yes; applying: No"
    finally:
        run(session, "START SLAVE SQL_THREAD")
    wait_for(lambda: sample("innodb_replication")["replica-1", "replica-1", "state"] == "follows", "a replica that follows")


def test_without_a_privilege_the_counters_that_need_none_are_still_read(
    cluster: Cluster, tmp_path: Path, connect: Callable[..., pymysql.Connection]
) -> None:
    admin = connect("admin")
    run(admin, "CREATE USER 'poor'@'127.0.0.1' IDENTIFIED BY 'poor'")
    run(admin, "GRANT SELECT ON stallbench.* TO 'poor'@'127.0.0.1'")
    primary = cluster.server("primary")
    endpoint = primary.direct.model_copy(update={"user": "poor", "password": type(primary.direct.password)("poor")})
    document = CollectorsDocument(
        name="collectors",
        run_folder=tmp_path,
        interval_s=1,
        servers=(WatchedServer(name="primary", role="primary", endpoint=endpoint),),
        queue=WatchedQueue(kind="laravel", tables=("jobs",), indexes=()),
    )
    locks, deadlocks = (find_collectors()[name](document) for name in ("innodb_locks", "innodb_deadlocks"))
    try:
        assert {"deadlocks", "blocked_backends"} <= {one.metric for one in locks.sample()}
        with pytest.raises(NotMeasuredError, match="PROCESS privilege"):
            list(deadlocks.sample())
    finally:
        locks.close()
        deadlocks.close()
        run(admin, "DROP USER 'poor'@'127.0.0.1'")
