"""Names of PostgreSQL's own in the bench's statements mean PostgreSQL's own, whatever a user of the database has put before them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.postgres.adapter import PostgresAdapter
from stallbench.engines.postgres.driver import connect, read_any_text
from stallbench.observe.address import ObservedServers
from stallbench.observe.known_queue import find_known_queues
from stallbench.observe.postgres.job_counts import count_jobs
from stallbench.observe.postgres.load import LoadDiagnostic, sample_jobs
from stallbench.observe.postgres.observer import make_postgres_observer
from stallbench.observe.postgres.queues import QueuesDiagnostic
from stallbench.observe.postgres.session import Rows
from stallbench.queues import NewJob
from stallbench.queues.queue_client import open_queue
from stallbench.records.endpoint import Endpoint
from stallbench.run.sampling import collectors_for
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import cannot_see
from tests.security.hostile_names import SCHEMA, TRAP, create_hostile_names
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

_OBSERVER = "led_astray"


class UnguardedSession:
    """Stands in for the session of an observation, without its settings: only what the statements themselves say protects it."""

    is_pooled = False
    name = "primary"
    spent_s = 0.0
    rolled_back = 0

    def __init__(self, connection: Connection, endpoint: Endpoint) -> None:
        self.connection = connection
        self.endpoint = endpoint
        self.version = connection.info.server_version
        self.version_text = str(self.version)
        self.statements: list[str] = []

    def execute(self, query: str, values: Any = None, **_: Any) -> Rows:
        self.statements.append(query)
        return Rows(self.connection.execute(query, values).fetchall())

    def close(self) -> None:
        """Stay open: the test closes it."""


@pytest.fixture
def observed(database: TestDatabase) -> Iterator[TestDatabase]:
    """A database with a queue, and a superuser who sees everything."""
    queue = open_queue("que", {}, database.direct, "fixture")
    with queue.connection:
        queue.install()
        queue.enqueue([NewJob(payload="{}")] * 3)
    with connect(database.direct, "test") as admin:
        admin.execute(f"CREATE ROLE {_OBSERVER} SUPERUSER LOGIN PASSWORD 'secret'")
        try:
            yield database
        finally:
            admin.execute(f"DROP OWNED BY {_OBSERVER}; DROP ROLE {_OBSERVER}")


def open_unguarded(endpoint: Endpoint) -> UnguardedSession:
    connection = connect(endpoint, "test")
    read_any_text(connection)
    return UnguardedSession(connection, endpoint)


def read_everything(session: UnguardedSession, *, log: Path | None = None) -> str:
    """Let all subjects look twice, and count the jobs of every known library; return what could not be seen."""
    queues = QueuesDiagnostic()
    servers = ObservedServers(primary=session.endpoint, replicas={})
    observer = make_postgres_observer(servers, queues, log, LoadDiagnostic(queues))
    observer._connect = lambda _: session
    not_visible = cannot_see(observer.read(reads_everything=True)) + cannot_see(observer.read(reads_everything=True))
    (table,) = queues.tables
    for known in find_known_queues().values():
        as_if = type(table)(**{name: getattr(table, name) for name in table.__slots__} | {"known": known})
        for read in (count_jobs, lambda server, each: sample_jobs(server, each, each.known.recorded, 1)):
            with suppress(psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable):  # the table is another library's
                read(session, as_if)
    return not_visible


@pytest.mark.parametrize("on", ["primary", "replica-1"])
def test_no_statement_of_observe_is_led_astray_by_a_search_path(observed: TestDatabase, on: str) -> None:
    endpoint = observed.on(observed.cluster.server(on))
    unhindered = open_unguarded(endpoint)
    with unhindered.connection:
        not_visible = read_everything(unhindered)
    assert len(unhindered.statements) > 20
    with connect(observed.direct, "test") as admin:
        created = create_hostile_names(admin, unhindered.statements)
        assert {"count", "pg_is_in_recovery", "pg_stat_activity", "pg_class", "now", "text"} <= created
        admin.execute(f"ALTER ROLE {_OBSERVER} SET search_path = {SCHEMA}, pg_catalog")
    as_observer = {"user": _OBSERVER, "password": type(endpoint.password)("secret")}
    hindered = open_unguarded(wait_until_hostile(endpoint.model_copy(update=as_observer)))
    with hindered.connection:
        with pytest.raises(psycopg.errors.RaiseException, match=TRAP):
            hindered.connection.execute("SELECT pg_is_in_recovery()")
        assert read_everything(hindered) == not_visible
    assert len(hindered.statements) == len(unhindered.statements)


def wait_until_hostile(endpoint: Endpoint) -> Endpoint:
    """Return it when the server has the role, the schema and its path: a replica has them a moment later."""

    def is_hostile() -> bool:
        try:
            with connect(endpoint, "test") as connection:
                connection.execute("SELECT pg_is_in_recovery()")
        except psycopg.errors.RaiseException:
            return True
        except psycopg.OperationalError:
            return False
        return False

    wait_for(is_hostile, "the hostile schema in the role's search_path")
    return endpoint


def test_no_collector_and_no_adapter_is_led_astray_by_a_search_path(observed: TestDatabase, tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    with connect(observed.direct, "test") as admin:
        created = create_hostile_names(admin, find_statements())
        assert {"pg_stat_progress_vacuum", "pg_prepared_xacts", "pg_is_in_recovery", "pg_class", "pg_settings"} <= created
        admin.execute(f"ALTER ROLE {_OBSERVER} SET search_path = {SCHEMA}, pg_catalog, public")
    as_observer = {"user": _OBSERVER, "password": type(observed.direct.password)("secret")}
    servers = tuple(
        WatchedServer(
            name=server.name,
            role=server.role,
            endpoint=wait_until_hostile(observed.on(server).model_copy(update=as_observer)),
            log=server.log,
        )
        for server in observed.cluster.servers
    )
    queue = WatchedQueue(kind="que", tables=("public.que_jobs",), indexes=("que_jobs_pkey",))
    document = CollectorsDocument(name="collectors", run_folder=tmp_path, interval_s=0.2, servers=servers, queue=queue)
    for kind in collectors_for("postgres").values():
        if kind.is_of_servers:
            with closing(kind(document)) as collector:
                assert list(collector.sample()) is not None
    adapter = PostgresAdapter("primary", servers[0].endpoint)
    with closing(adapter):
        adapter.require_role("primary")
        adapter.find_objects()
        adapter.count_other_sessions()
        adapter.read_created_objects()
        adapter.read_settings()
        adapter.find_differing({"work_mem": "4MB"})


def find_statements() -> list[str]:
    """Return the source of every module whose statements the collectors and the adapter execute."""
    root = Path(__file__).parents[2] / "stallbench"
    folders = (root / "engines", root / "servers")
    return [path.read_text() for folder in folders for path in folder.rglob("*.py")]
