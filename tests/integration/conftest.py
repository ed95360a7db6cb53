"""Real servers for the tests: one of each kind a session, a database of its own for each test."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from stallbench.engines import EngineName
from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.records.endpoint import Endpoint
from stallbench.servers.cluster import Cluster, Server
from stallbench.waiting import wait_until
from tests.integration.engines import PrivateServers, private_servers
from tests.integration.faulty_run import FaultyRun, faulty_run
from tests.integration.running_cluster import StartedCluster, running_cluster
from tests.integration.shared_clusters import CLUSTERS

Connection = psycopg.Connection[tuple[Any, ...]]
EmptyOn = Callable[[EngineName], Endpoint]
"""What the fixture `empty_on` is."""


@dataclass(frozen=True, slots=True)
class TestDatabase:
    """An empty database on the shared primary."""

    __test__ = False

    cluster: Cluster
    direct: Endpoint
    proxied: Endpoint

    def on(self, server: Server) -> Endpoint:
        """Return the same database on another server, directly."""
        return server.direct.model_copy(update={"database": self.direct.database})


@pytest.fixture(scope="session", autouse=True)
def shared_clusters() -> Iterator[None]:
    """Takes down the servers that tests have shared."""
    yield
    CLUSTERS.close()


@pytest.fixture(scope="module")
def run_of_module(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRun]:
    """A run for those tests of a file that leave it whole. Its parameter, if any, is the options of `faulty_run`."""
    with faulty_run(tmp_path_factory.mktemp("run"), **getattr(request, "param", {})) as run:
        yield run


@pytest.fixture
def run(run_of_module: FaultyRun) -> Iterator[FaultyRun]:
    """The same, for one test: after it, the load must still be complete, and no fault may be left.

    Tests that start their own come first in their file: they and the shared run then use the same servers, one after the other.
    """
    yield run_of_module
    run_of_module.require_whole()


@pytest.fixture(scope="session")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartedCluster]:
    """A primary that allows prepared transactions and logical slots, and a replica with feedback."""
    database = Database(
        replicas=1,
        hot_standby_feedback=True,
        settings={
            "max_prepared_transactions": 4,
            "wal_level": "logical",
            "autovacuum": False,
            "deadlock_timeout": "100ms",
            "fsync": False,
        },
    )
    with running_cluster(database, tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def cluster(started_cluster: StartedCluster) -> Cluster:
    """The shared servers themselves."""
    return started_cluster.cluster


def _wait_until_replayed(cluster: Cluster, within_s: float = 60) -> None:
    """Wait until every replica has what the primary has now."""
    with connect(cluster.server("primary").direct, "fixture") as primary:
        row = primary.execute("SELECT pg_current_wal_lsn()").fetchone()
        assert row is not None
        caught_up = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= %s"
        replicas = len(cluster.servers) - 1
        has_caught_up = wait_until(
            lambda: primary.execute(caught_up, row).fetchone() == (replicas,), within_s=within_s, every_s=0.01
        )
        assert has_caught_up, f"the replicas did not catch up within {within_s} s"


@pytest.fixture
def database(cluster: Cluster) -> Iterator[TestDatabase]:
    """An empty database of the test's own."""
    with database_on(cluster) as made:
        yield made


@contextmanager
def database_on(cluster: Cluster) -> Iterator[TestDatabase]:
    """Create an empty database; dropped afterwards, with all its connections."""
    name = f"test_{secrets.token_hex(4)}"
    primary = cluster.server("primary")
    with connect(primary.direct, "fixture") as admin:
        admin.execute(f"CREATE DATABASE {name}")
        _wait_until_replayed(cluster)
        yield TestDatabase(
            cluster,
            primary.direct.model_copy(update={"database": name}),
            primary.proxied.model_copy(update={"database": name}),
        )
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateServers]:
    """Servers of the other engines, each started when it is first asked for."""
    with private_servers(tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture
def empty_on(servers: PrivateServers) -> Iterator[EmptyOn]:
    """Gives an empty database of the test's own on an engine; skips the test if the machine does not have its program."""
    with ExitStack() as stack:
        yield lambda engine: stack.enter_context(servers.empty(engine))


@pytest.fixture
def open_connection() -> Iterator[Callable[[Endpoint, str], Connection]]:
    """Opens connections that are closed when the test is over."""
    with ExitStack() as stack:

        def open_one(endpoint: Endpoint, name: str = "test") -> Connection:
            connection = connect(endpoint, name)
            stack.callback(connection.close)
            return connection

        yield open_one
