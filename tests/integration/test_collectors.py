"""What the collectors see of a real server in a real situation."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.postgres.collectors.horizon import Holder, read_horizon
from stallbench.engines.postgres.collectors.vacuum import AutovacuumLog
from stallbench.engines.postgres.driver import connect
from stallbench.queues import NewJob
from stallbench.queues.queue_client import open_queue
from stallbench.run.sampling import collectors_for, find_collectors
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.statistics import publish_statistics
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration

OF_POSTGRES = list(collectors_for("postgres"))
OpenConnection = Callable[..., Connection]


@pytest.fixture
def document(database: TestDatabase, tmp_path: Path) -> CollectorsDocument:
    """Watches the test's database, with `que` installed and three jobs in it."""
    queue = open_queue("que", {}, database.direct, "fixture")
    with queue.connection:
        queue.install()
        queue.enqueue([NewJob(payload="{}")] * 3)
    (tmp_path / "samples").mkdir()
    servers = tuple(
        WatchedServer(name=server.name, role=server.role, endpoint=database.on(server), log=server.log)
        for server in database.cluster.servers
    )
    watched = WatchedQueue(kind="que", tables=("que_jobs",), indexes=("que_jobs_pkey",), advisory_locks=1)
    return CollectorsDocument(name="collectors", run_folder=tmp_path, interval_s=0.2, servers=servers, queue=watched)


@pytest.fixture
def sample(document: CollectorsDocument) -> Callable[[str], dict[tuple[str, str, str], Any]]:
    """Lets a collector measure once; returns values by source, subject and metric."""

    def sample_once(name: str) -> dict[tuple[str, str, str], Any]:
        # A test that has to look often would else use up the server's connections.
        with closing(find_collectors()[name](document)) as collector:
            return {(sample.source, sample.subject, sample.metric): sample.value for sample in collector.sample()}

    return sample_once


def wait_for_holder(database: TestDatabase, wanted: Callable[[Holder], bool]) -> Holder:
    return wait_for(lambda: find_holder(database, wanted), "such a holder")


def find_holder(database: TestDatabase, wanted: Callable[[Holder], bool]) -> Holder | None:
    with (
        connect(database.direct, "proof") as primary,
        connect(database.on(database.cluster.server("replica-1")), "proof") as replica,
    ):
        return next((holder for holder in read_horizon(primary, {"replica-1": replica}) if wanted(holder)), None)


def test_every_collector_of_the_folder_samples(sample: Callable[[str], Any]) -> None:
    for name in OF_POSTGRES:
        sample(name)


def test_the_backlog_is_the_queue_s(sample: Callable[[str], Any]) -> None:
    values = sample("backlog")
    assert values["primary", "queue", "depth"] == 3
    assert 0 <= values["primary", "queue", "oldest_job_s"] < 60


def test_advisory_locks_are_counted_of_the_session_that_holds_the_most(
    sample: Callable[[str], Any], database: TestDatabase, open_connection: OpenConnection
) -> None:
    open_connection(database.direct, "few").execute("SELECT pg_advisory_lock(1)")
    open_connection(database.direct, "most").execute("SELECT pg_advisory_lock(n) FROM generate_series(2, 8) AS n")
    assert sample("advisory_locks")["primary", "server", "advisory_locks"] == 7


def test_dead_tuples_and_sizes_are_seen(sample: Callable[[str], Any], database: TestDatabase) -> None:
    with connect(database.direct, "test") as connection:
        connection.execute("DELETE FROM que_jobs")
        publish_statistics(connection)
    seen = "primary", "table:que_jobs", "dead_tuples"
    values = wait_for(lambda: values if (values := sample("tables"))[seen] else None, "dead tuples")
    assert values[seen] == 3
    assert values["primary", "index:que_jobs_pkey", "index_bytes"] > 0


def test_large_arguments_are_seen_in_the_size_of_what_is_stored_outside_the_table(
    sample: Callable[[str], Any], database: TestDatabase
) -> None:
    seen = "primary", "table:que_jobs", "toast_bytes"
    assert sample("tables")[seen] == 0
    with connect(database.direct, "test") as connection:
        connection.execute("ALTER TABLE que_jobs ALTER COLUMN args SET STORAGE EXTERNAL")
        connection.execute("UPDATE que_jobs SET args = json_build_array(repeat('x', 100000))")
    assert sample("tables")[seen] > 100_000


def test_an_idle_writer_holds_by_its_transaction_id(database: TestDatabase, open_connection: OpenConnection) -> None:
    writer = open_connection(database.direct, "idle")
    writer.execute("BEGIN")
    writer.execute("CREATE TABLE written (n int)")
    holder = wait_for_holder(database, lambda h: h.application == "stallbench:idle")
    assert (holder.kind, holder.source, holder.state) == ("backend", "primary", "idle in transaction")
    assert holder.pid == writer.info.backend_pid


def test_elsewhere_a_writer_holds_and_a_reader_does_not(database: TestDatabase, open_connection: OpenConnection) -> None:
    user_queue = database.cluster.server("primary").direct
    assert user_queue.database != database.direct.database
    reader, writer = open_connection(user_queue, "reader-elsewhere"), open_connection(user_queue, "writer-elsewhere")
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.execute("SELECT count(*) FROM pg_class")
    writer.execute("BEGIN")
    writer.execute("CREATE TABLE written_elsewhere (n int)")
    holder = wait_for_holder(database, lambda h: h.application == "stallbench:writer-elsewhere")
    assert holder.source == "primary"
    assert find_holder(database, lambda h: h.application == "stallbench:reader-elsewhere") is None


def test_a_prepared_transaction_holds_without_a_session(database: TestDatabase, open_connection: OpenConnection) -> None:
    connection = open_connection(database.direct)
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE prepared (n int)")
    connection.execute("PREPARE TRANSACTION 'forgotten'")
    try:
        holder = wait_for_holder(database, lambda h: h.key == "forgotten")
        assert (holder.kind, holder.pid) == ("prepared", None)
    finally:
        connection.execute("ROLLBACK PREPARED 'forgotten'")


def test_behind_a_replica_s_feedback_the_session_on_the_replica_is_named(
    database: TestDatabase, open_connection: OpenConnection
) -> None:
    replica = database.on(database.cluster.server("replica-1"))

    def open_reader() -> Connection | None:
        with suppress(psycopg.OperationalError):
            return open_connection(replica, "reader")
        return None

    reader = wait_for(open_reader, f"database {replica.database} on the replica")
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.execute("SELECT count(*) FROM pg_class")
    with connect(database.direct, "test") as connection:
        connection.execute("CREATE TABLE moved_on (n int)")
    holder = wait_for_holder(database, lambda h: h.application == "stallbench:reader")
    assert (holder.kind, holder.source, holder.via) == ("backend", "replica-1", "feedback")
    assert holder.pid == reader.info.backend_pid


def test_a_logical_slot_is_reported_as_holding_only_catalogs(database: TestDatabase, open_connection: OpenConnection) -> None:
    connection = open_connection(database.direct)
    connection.execute("SELECT pg_create_logical_replication_slot('connector', 'test_decoding')")
    try:
        holder = wait_for_holder(database, lambda h: h.key == "connector")
        assert holder.catalog_only
    finally:
        connection.execute("SELECT pg_drop_replication_slot('connector')")


def test_a_blocked_backend_is_seen_with_its_blocker(
    sample: Callable[[str], Any], database: TestDatabase, open_connection: OpenConnection
) -> None:
    blocker, blocked = open_connection(database.direct, "blocker"), open_connection(database.direct, "blocked")
    blocker.execute("BEGIN")
    blocker.execute("LOCK TABLE que_jobs")
    blocked.pgconn.send_query(b"SELECT count(*) FROM que_jobs")
    subject = f"blocked:{blocked.info.backend_pid}"
    seen = "primary", subject, "blocker_pid"
    values = wait_for(lambda: values if seen in (values := sample("locks")) else None, "a blocked session")
    assert values["primary", subject, "blocker_application"] == "stallbench:blocker"
    assert values["primary", "server", "blocked_backends"] >= 1
    blocker.execute("ROLLBACK")


def test_the_process_samples_at_its_cadence_and_ends_when_asked(document: CollectorsDocument) -> None:
    content = {
        **document.model_dump(mode="json"),
        "servers": [
            {**server.model_dump(mode="json"), "endpoint": server.endpoint.with_password()} for server in document.servers
        ],
    }
    backlog = document.run_folder / "samples" / "backlog.csv"
    with running_collectors(content) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": {}}
        # A machine that stands still misses samples, but not always.
        wait_for(lambda: any(fourth - first < 1.5e9 for first, fourth in in_fours(times_of(backlog))), "four samples in 1.5 s")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    times = times_of(backlog)
    first_now_and_last = 3
    assert len(times) <= (times[-1] - times[0]) / (document.interval_s * 1e9) + first_now_and_last
    names = {path.stem for path in (document.run_folder / "samples").glob("*.csv")}
    assert names == {*OF_POSTGRES, "own_cost"}


@contextmanager
def running_collectors(content: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "stallbench.run.sampling"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(content))
        process.stdin.close()
        yield process
    finally:
        process.kill()
        process.wait()


def times_of(samples: Path) -> list[int]:
    """When there were samples, in ns."""
    whole_lines, _, _ = samples.read_text().rpartition("\n")  # the last may be half written
    return sorted({int(line.split(",")[0]) for line in whole_lines.splitlines()})


def in_fours(times: list[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of any four in a row."""
    return zip(times, times[3:], strict=False)


@pytest.mark.parametrize(
    "lines",
    [
        # PostgreSQL 15 and later, as src/backend/access/heap/vacuumlazy.c writes it.
        [
            '2026-01-01 [1] LOG:  automatic vacuum of table "stallbench.public.que_jobs": index scans: 0',
            "\tpages: 0 removed, 447 remain, 447 scanned (100.00% of total)",
            "\ttuples: 17 removed, 20062 remain, 20061 are dead but not yet removable",
            "\tremovable cutoff: 771, which was 40130 XIDs old when operation ended",
        ]
    ],
)
def test_what_autovacuum_could_not_remove_is_read_from_the_log(tmp_path: Path, lines: list[str]) -> None:
    log = tmp_path / "primary.log"
    log.write_text("\n".join(["2026-01-01 [1] LOG:  something else", *lines]))
    reader = AutovacuumLog(log)
    reader.read_on()
    assert "oldest_xmin" not in reader.last["stallbench.public.que_jobs"], "its line is not finished"
    with log.open("a") as file:
        file.write("\n2026-01-01 [1] LOG:  something else\n")
    reader.read_on()
    assert reader.last["stallbench.public.que_jobs"] == {"removed_tuples": 17, "not_removable_tuples": 20061, "oldest_xmin": 771}


def test_while_the_log_is_replaced_the_server_s_own_counts_of_vacuums_are_sampled(
    document: CollectorsDocument, tmp_path: Path
) -> None:
    primary = document.primary
    log = tmp_path / "server.log"
    watched = document.model_copy(update={"servers": (primary.model_copy(update={"log": log}),)})
    with closing(find_collectors()["vacuum"](watched)) as collector:
        line = f'2026-01-01 [1] LOG:  automatic vacuum of table "{primary.endpoint.database}.public.que_jobs": index scans: 0\n'
        log.write_text(line + "\ttuples: 17 removed, 3 remain, 2 are dead but not yet removable\n")
        found = {sample.metric: sample.value for sample in collector.sample()}
        assert (found["removed_tuples"], found["not_removable_tuples"]) == (17, 2)
        log.rename(tmp_path / "server.log.1")
        found = {}
        with pytest.raises(NotMeasuredError, match="primary: the log cannot be read"):
            found.update((sample.metric, sample.value) for sample in collector.sample())
        assert found == {"autovacuum_count": 0}
