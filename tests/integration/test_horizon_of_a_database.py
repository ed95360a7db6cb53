"""Who holds the horizon of one database? What the bench says must be what three vacuums do, on every version of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

import psycopg
import pytest
from psycopg.errors import Diagnostic

from stallbench.engines.database import Database
from stallbench.engines.postgres.collectors.horizon import Holder, read_horizon
from stallbench.engines.postgres.driver import Connection, connect
from stallbench.records.endpoint import Endpoint
from stallbench.setup.components import MissingComponentError
from stallbench.setup.postgres_packages import list_packaged_majors, require_version
from tests.integration.running_cluster import running_cluster
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

_SERVERS = [
    pytest.param(
        (major, feedback), marks=[] if major == 15 else pytest.mark.long, id=f"{major} with{'' if feedback else 'out'} feedback"
    )
    for major in (14, 15, 16, 17, 18)
    for feedback in (False, True)
]
_NOT_REMOVABLE = re.compile(r"(\d+) (?:are dead but not yet removable|dead row versions cannot be removed yet)")
SNAPSHOT = ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class")
WRITE = ("BEGIN", "CREATE TABLE written (n int)")
PREPARE = (*WRITE, "PREPARE TRANSACTION 'forgotten'")
LOGICAL_SLOT = ("SELECT pg_create_logical_replication_slot('connector', 'test_decoding')",)
DEAD = 10


@dataclass(kw_only=True)
class Servers:
    """A primary, a replica, and a table whose rows die."""

    primary: Endpoint
    replica: Endpoint
    client: Connection
    sends_feedback: bool

    def has_current_feedback(self) -> bool:
        """Whether the primary knows what the replica needs now, or that it reports nothing."""
        query = "SELECT backend_xmin::text::bigint FROM pg_stat_replication WHERE state = 'streaming'"
        reported = self.client.execute(query).fetchone()
        if reported is None or not self.sends_feedback:
            return reported == (None,)
        return reported[0] is not None and reported[0] >= self._oldest_on_replica()

    def _oldest_on_replica(self) -> int:
        """What the replica would report: its snapshots, and every transaction of the primary that it knows to be open."""
        with connect(self.replica, "test") as replica:
            query = """
            SELECT least(pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
              (SELECT min(backend_xmin::text::bigint) FROM pg_stat_activity))
            """
            (oldest,) = replica.execute(query).fetchone() or (0,)
        return int(oldest)

    def let_rows_die(self) -> None:
        """Leave dead rows, and wait until the replica has replayed their transactions and reported what it needs."""
        self.client.execute(f"INSERT INTO jobs SELECT generate_series(1, {DEAD})")
        self.client.execute("DELETE FROM jobs")
        written = self.client.execute("SELECT pg_current_wal_lsn()").fetchone()
        caught_up = "SELECT replay_lsn >= %s FROM pg_stat_replication WHERE state = 'streaming'"
        wait_for(lambda: self.client.execute(caught_up, written).fetchone() == (True,), "the replica")
        wait_for(self.has_current_feedback, "the replica's feedback")

    def vacuum_three_times(self) -> list[int]:
        """Return how many dead rows each vacuum could not remove."""
        notices: list[str] = []

        def listen(diagnostic: Diagnostic) -> None:
            notices.append(f"{diagnostic.message_primary} {diagnostic.message_detail}")

        self.client.add_notice_handler(listen)
        for _ in range(3):
            self.client.execute("VACUUM (VERBOSE) jobs")
        self.client.remove_notice_handler(listen)
        return [int(match[1]) for text in notices if (match := _NOT_REMOVABLE.search(text))]

    def holders(self) -> list[Holder]:
        """Who holds the horizon of the database, as the bench says, with the replica's address."""
        with connect(self.replica, "test") as replica:
            found = read_horizon(self.client, {"replica-1": replica})
        return [one for one in found if not one.catalog_only and one.kind != "replica" and one.application != "stallbench:test"]


@pytest.fixture(scope="module", params=_SERVERS)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    major, feedback = request.param
    if major not in list_packaged_majors():
        pytest.skip("there is no package for this machine")
    try:
        require_version(major, packaged=True)
    except MissingComponentError as error:
        pytest.skip(str(error))
    settings: dict[str, str | int | float | bool] = {
        "fsync": False,
        "wal_level": "logical",
        "max_prepared_transactions": 4,
        "autovacuum": False,
    }
    database = Database(version=str(major), packaged=True, replicas=1, hot_standby_feedback=feedback, settings=settings)
    with running_cluster(database, tmp_path_factory.mktemp("cluster")) as started:
        primary, replica = (started.cluster.server(name).direct for name in ("primary", "replica-1"))
        with connect(replica, "admin") as admin:
            admin.execute("ALTER SYSTEM SET wal_receiver_status_interval = '1s'")
            admin.execute("SELECT pg_reload_conf()")
        with connect(primary, "test") as client:
            client.execute("CREATE TABLE jobs (id int)")
            client.execute("CREATE DATABASE elsewhere")
            elsewhere = replica.model_copy(update={"database": "elsewhere"})
            wait_for(partial(_can_connect, elsewhere), "the database on the replica")
            yield Servers(primary=primary, replica=replica, client=client, sends_feedback=feedback)


def _can_connect(endpoint: Endpoint) -> bool:
    with suppress(psycopg.OperationalError), connect(endpoint, "test"):
        return True
    return False


@pytest.mark.parametrize(
    ("where", "statements", "holds", "holds_with_feedback"),
    [
        pytest.param("here", SNAPSHOT, True, True, id="a snapshot here"),
        pytest.param("here", WRITE, True, True, id="a transaction id here"),
        pytest.param("here", PREPARE, True, True, id="prepared here"),
        pytest.param("elsewhere", SNAPSHOT, False, False, id="a snapshot in another database"),
        pytest.param("elsewhere", WRITE, False, True, id="a transaction id in another database"),
        pytest.param("elsewhere", PREPARE, False, True, id="prepared in another database"),
        pytest.param("replica here", SNAPSHOT, False, True, id="a snapshot on the replica"),
        pytest.param("replica elsewhere", SNAPSHOT, False, True, id="a snapshot on the replica in another database"),
        pytest.param("here", LOGICAL_SLOT, False, False, id="a logical slot"),
    ],
)
def test_it_is_named_if_and_only_if_vacuums_leave_dead_rows(
    servers: Servers, where: str, statements: tuple[str, ...], holds: bool, holds_with_feedback: bool
) -> None:
    wait_for(lambda: not any(servers.vacuum_three_times()), "a table without dead rows")
    endpoint = servers.replica if where.startswith("replica") else servers.primary
    if where.endswith("elsewhere"):
        endpoint = endpoint.model_copy(update={"database": "elsewhere"})
    with ExitStack() as stack:
        session = connect(endpoint, "suspect")
        stack.callback(session.close)
        stack.callback(_forget, servers, endpoint)
        for statement in statements:
            session.execute(statement.encode())
        servers.let_rows_die()
        expected = holds_with_feedback if servers.sends_feedback else holds
        assert servers.vacuum_three_times() == [DEAD if expected else 0] * 3
        named = servers.holders()
        if not expected:
            assert named == []
            return
        (holder,) = named
        assert holder.key == "forgotten" if statements is PREPARE else holder.pid == session.info.backend_pid
        assert holder.database == (endpoint.database if where != "replica here" else servers.primary.database)
        passes_through = "feedback" if where != "here" else ""
        assert holder.via == passes_through
        session.close()
        _forget(servers, endpoint)
        wait_for(lambda: not any(servers.vacuum_three_times()), "vacuums that remove everything once it has ended")


def _forget(servers: Servers, endpoint: Endpoint) -> None:
    with connect(servers.primary.model_copy(update={"database": endpoint.database}), "admin") as admin:
        for (gid,) in admin.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall():
            admin.execute(f"ROLLBACK PREPARED '{gid}'".encode())
        admin.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'stallbench:suspect'"
        )
        admin.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'connector' AND NOT active"
        )


def test_a_transaction_elsewhere_holds_while_a_snapshot_here_reaches_back_to_it(servers: Servers) -> None:
    """The snapshot is the one that the database's horizon counts."""
    if servers.sends_feedback:
        pytest.skip("the feedback alone asks for the transaction elsewhere")
    elsewhere = servers.primary.model_copy(update={"database": "elsewhere"})
    with connect(elsewhere, "suspect") as writer, connect(servers.primary, "reader") as reader:
        for statement in WRITE:
            writer.execute(statement.encode())
        servers.let_rows_die()
        for statement in SNAPSHOT:
            reader.execute(statement.encode())
        assert servers.vacuum_three_times() == [DEAD] * 3, "although the rows died before the snapshot was taken"
        found = servers.holders()
        assert [(one.pid, one.via) for one in found] == [(writer.info.backend_pid, "snapshot"), (reader.info.backend_pid, "")]
        with connect(servers.primary, "reader") as overlapping:
            for statement in SNAPSHOT:
                overlapping.execute(statement.encode())
            reader.execute("ROLLBACK")
            assert servers.vacuum_three_times() == [DEAD] * 3, "although the first snapshot is gone"
            writer.execute("ROLLBACK")
            for statement in SNAPSHOT:
                reader.execute(statement.encode())
            overlapping.execute("ROLLBACK")
            wait_for(lambda: not any(servers.vacuum_three_times()), "vacuums that remove everything, although snapshots overlap")
        assert [(one.pid, one.via) for one in servers.holders()] == [(reader.info.backend_pid, "")]
        reader.execute("ROLLBACK")
        wait_for(lambda: not any(servers.vacuum_three_times()), "vacuums that remove everything")
        assert servers.holders() == []


def test_an_index_build_holds_the_horizon_and_its_parallel_workers_are_no_holders_of_their_own(servers: Servers) -> None:
    client = servers.client
    client.execute("CREATE TABLE large AS SELECT generate_series(1, 200000) AS n")
    client.execute("ALTER TABLE large SET (parallel_workers = 2)")
    # A transaction that reads lets the build wait after each of its scans, with its snapshot.
    with connect(servers.primary, "builder") as builder, connect(servers.primary, "reader") as reader:
        builder.execute("SET min_parallel_table_scan_size = 0")
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        builder.pgconn.send_query(b"CREATE INDEX CONCURRENTLY on_large ON large (n)")
        waits = "SELECT 1 FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for old snapshots%'"
        wait_for(lambda: client.execute(waits).fetchone(), "the build's wait for older snapshots")
        assert {one.pid for one in servers.holders()} <= {builder.info.backend_pid, reader.info.backend_pid}
        _cancel(builder)
    client.execute("DROP TABLE large")


def _cancel(session: Connection) -> None:
    session.cancel()
    while session.pgconn.get_result() is not None:
        pass


def _is_held_by(servers: Servers, pid: int) -> bool:
    return any(one.pid == pid for one in servers.holders())


def test_the_snapshot_of_a_concurrent_index_build_counts_for_ordinary_tables(servers: Servers) -> None:
    client = servers.client
    client.execute("CREATE TABLE slow AS SELECT generate_series(1, 100) AS n")
    client.execute(
        "CREATE OR REPLACE FUNCTION slowly(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT pg_sleep(0.1); SELECT $1'"
    )
    with connect(servers.primary, "suspect") as builder:
        builder.pgconn.send_query(b"CREATE INDEX CONCURRENTLY on_slow ON slow (slowly(n))")
        builds = "SELECT 1 FROM pg_stat_progress_create_index WHERE phase LIKE 'building index%'"
        wait_for(lambda: client.execute(builds).fetchone(), "the build")
        pid = builder.info.backend_pid
        servers.let_rows_die()
        kept, is_named = servers.vacuum_three_times(), _is_held_by(servers, pid)
        still_builds = client.execute(builds).fetchone() is not None
        _cancel(builder)
    if still_builds:
        assert kept == [DEAD] * 3
        assert is_named
    client.execute("DROP TABLE slow")


def test_the_transaction_of_a_vacuum_holds_nothing(servers: Servers) -> None:
    client = servers.client
    client.execute("CREATE TABLE vacuumed AS SELECT generate_series(1, 20000) AS n")
    client.execute("DELETE FROM vacuumed")
    with connect(servers.primary, "suspect") as vacuum:
        vacuum.execute("SET vacuum_cost_delay = '100ms'")
        vacuum.execute("SET vacuum_cost_limit = 1")
        vacuum.pgconn.send_query(b"VACUUM vacuumed")
        runs = "SELECT 1 FROM pg_stat_progress_vacuum WHERE pid = %s"
        wait_for(lambda: client.execute(runs, (vacuum.info.backend_pid,)).fetchone(), "the vacuum")
        servers.let_rows_die()
        assert servers.vacuum_three_times() == [0] * 3
        assert servers.holders() == []
        _cancel(vacuum)
    client.execute("DROP TABLE vacuumed")


def test_without_pg_monitor_the_holders_are_the_same_and_their_age_is_unknown(servers: Servers) -> None:
    """The server hides since when a session is in its transaction, and not what its snapshot still needs."""
    servers.client.execute("CREATE ROLE visitor LOGIN PASSWORD 'visitor'")
    try:
        with connect(servers.primary, "suspect") as suspect, _as_visitor(servers.primary) as visitor:
            for statement in SNAPSHOT:
                suspect.execute(statement.encode())
            servers.let_rows_die()
            (holder,) = [one for one in read_horizon(visitor, {}) if one.pid == suspect.info.backend_pid]
            assert (holder.age_s, holder.state) == (None, "")
            assert holder.age_xids >= 2
            assert holder.database == servers.primary.database
    finally:
        servers.client.execute("DROP ROLE visitor")


def _as_visitor(endpoint: Endpoint) -> Connection:
    return psycopg.connect(
        host=endpoint.host, port=endpoint.port, dbname=endpoint.database, user="visitor", password="visitor", autocommit=True
    )
