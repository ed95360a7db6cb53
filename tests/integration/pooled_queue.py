"""Que's queue with three jobs, and a PgBouncer with one connection to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from stallbench.queues import NewJob
from stallbench.queues.queue_client import open_queue
from stallbench.records.endpoint import Endpoint
from stallbench.servers.pgbouncer import Pgbouncer
from stallbench.setup.components import MissingComponentError
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.running_cluster import StartedCluster


@pytest.fixture
def que(database: TestDatabase) -> TestDatabase:
    """A database with Que's table and three jobs."""
    queue = open_queue("que", {}, database.direct, "fixture")
    with queue.connection:
        queue.install()
        queue.enqueue([NewJob(payload="{}")] * 3)
    return database


@pytest.fixture
def start_pooler(que: TestDatabase, started_cluster: StartedCluster, tmp_path: Path) -> Iterator[Callable[..., Pgbouncer]]:
    """Starts a PgBouncer with one connection in a pool mode.

    ``ignored``: startup parameters that it drops. ``resets``: whether it resets its connection between two clients.
    """
    with ExitStack() as stack:

        def start(mode: str, *, ignored: str = "", resets: bool = True) -> Pgbouncer:
            try:
                pooler = Pgbouncer(
                    "pooler",
                    que.direct,
                    mode=mode,
                    pool_size=1,
                    processes=started_cluster.processes,
                    logs=tmp_path,
                    scratch=started_cluster.scratch,
                )
            except MissingComponentError as error:
                pytest.skip(str(error))
            stack.callback(pooler.stop)
            configuration = started_cluster.scratch / "pooler" / "pgbouncer.ini"
            text = configuration.read_text()
            if ignored:
                text = text.replace("extra_float_digits", f"extra_float_digits, {ignored}")
            if not resets:
                text = text.replace("[pgbouncer]", "[pgbouncer]\nserver_reset_query =")
            configuration.write_text(text)
            with connect_through(pooler.endpoint, "pgbouncer") as admin:
                admin.pgconn.exec_(b"RELOAD")
            return pooler

        yield start


def connect_through(pooler: Endpoint, database: str) -> Connection:
    return psycopg.connect(
        host=pooler.host,
        port=pooler.port,
        user=pooler.user,
        password=pooler.password.get_secret_value(),
        dbname=database,
        autocommit=True,
        prepare_threshold=None,
    )
