"""What `stallbench observe` says about a queue's table, vacuums, claim statement, transaction ids and notifications, against known figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.diagnostic import Finding, Severity
from stallbench.observe.observer import Observation
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import cannot_see, finding_about, look_at, observer_of, section_of, text_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OpenConnection = Callable[..., Connection]
DEAD = 12_000
LEFT = 3
DUE = 5_000
"""Dead rows of the table that is due most: more than a catalog that all tests of the server share has."""
NOTIFICATIONS = 12_000
"""Of a page each: more than a hundredth of the queue's eight gibibytes."""
VACUUM = """2026-01-01 [1] LOG:  automatic vacuum of table "{table}": index scans: 0
\tpages: 0 removed, 447 remain, 447 scanned (100.00% of total)
\ttuples: 17 removed, 20062 remain, {kept} are dead but not yet removable
"""
"""What a server's log has of a vacuum."""
COUNTED = "SELECT pg_stat_get_dead_tuples('que_jobs'::regclass)"


@pytest.fixture
def que(database: TestDatabase) -> TestDatabase:
    """A database with Que's table, and statements that are counted."""
    with opened_queue("que", {}, database.direct, "fixture") as queue:
        queue.install()
    with connect(database.direct, "fixture") as admin:
        admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    return database


@pytest.fixture
def holder(que: TestDatabase, open_connection: OpenConnection) -> Connection:
    """A session whose snapshot keeps all rows that die from now on."""
    session = open_connection(que.direct, "report")
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    session.execute("SELECT count(*) FROM que_jobs")
    return session


def let_rows_die(database: TestDatabase) -> None:
    """Enqueue jobs of a kilobyte, delete all but the last few, and wait until the server has counted the dead rows."""
    with connect(database.direct, "load") as client:
        client.execute(
            "INSERT INTO que_jobs (job_class, args) SELECT 'job', json_build_array(repeat('x', 1000)) "
            f"FROM generate_series(1, {DEAD + LEFT})"
        )
        client.execute(f"DELETE FROM que_jobs WHERE job_id <= (SELECT max(job_id) - {LEFT} FROM que_jobs)")
    wait_for(lambda: ask(database, COUNTED) >= DEAD, "the count of dead rows")


def ask(database: TestDatabase, question: str) -> int:
    with connect(database.direct, "test") as client:
        row = client.execute(question).fetchone()
    assert row is not None
    return int(row[0])


def vacuum(database: TestDatabase) -> None:
    with connect(database.direct, "vacuum") as client:
        client.execute("VACUUM que_jobs")


def row_of_the_table(observation: Observation) -> dict[str, str]:
    section = section_of(observation, "Tables")
    (row,) = [row for row in section.rows if row[0].endswith("que_jobs")]
    return dict(zip(section.columns, row, strict=True))


def test_dead_rows_that_a_vacuum_could_not_remove_are_named_with_what_keeps_them(
    que: TestDatabase, holder: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_rows_die(que)
    with observer_of(que.direct) as observer:
        before = observer.read()
        assert "what vacuums before this observation could not remove" in cannot_see(before)
        vacuum(que)
        young = observer.read(reads_everything=True)
        for threshold in ("BRIEF_S", "LONG_TRANSACTION_S"):
            monkeypatch.setattr(f"stallbench.observe.postgres.horizon.{threshold}", 0.0)

        def find_blamed() -> Observation | None:
            """The replica's feedback may be a moment older than the holder."""
            observation = observer.read(reads_everything=True)
            is_blamed = finding_about(observation, "that it could not remove").statement.startswith("SELECT")
            return observation if is_blamed else None

        after = wait_for(find_blamed, "the holder")
    row = row_of_the_table(after)
    assert (row["live rows"], row["dead rows"], row["it left"]) == (str(LEFT), "12,000", "12,000")
    assert row["due at"].endswith("(overdue)")
    assert row["last vacuum"].endswith(" ago")
    finding = finding_about(after, "que_jobs has 12,000 dead rows beside 3 live rows")
    assert finding.severity is Severity.CRITICAL
    assert "and left 12,000 dead rows that it could not remove" in finding.sentence
    assert finding.statement == f"SELECT pg_terminate_backend({holder.info.backend_pid});"
    assert "overdue for a vacuum" in text_of(section_of(after, "Tables"))
    finding = finding_about(young, "that it could not remove")
    assert not finding.statement.startswith("VACUUM "), "a second one would remove as little"


def test_a_table_that_stays_large_after_its_dead_rows_are_removed_is_shown_as_bloat(que: TestDatabase) -> None:
    let_rows_die(que)
    with connect(que.direct, "more") as client:
        client.execute(
            "INSERT INTO que_jobs (job_class, args) VALUES ('job', '[]')"
        )  # at the end, so that no page can be cut off

    def is_removed() -> bool:
        vacuum(que)
        return ask(que, COUNTED) == 0

    wait_for(is_removed, "a vacuum that removes them: another database's transaction, or the replica, may hold the horizon")
    with connect(que.direct, "analyze") as client:
        client.execute("ANALYZE que_jobs")
    row = row_of_the_table(look_at(que.direct))
    size = ask(que, "SELECT pg_relation_size('que_jobs')")
    assert size > DEAD * 1000
    assert row["dead rows"] == "0"
    assert row["bloat"].startswith("about ")
    assert row["bloat"].removeprefix("about ") == row["size"], "four rows are lost in the rounding"


def test_a_table_without_autovacuum_is_never_due(que: TestDatabase) -> None:
    with connect(que.direct, "admin") as admin:
        admin.execute("ALTER TABLE que_jobs SET (autovacuum_enabled = off)")
    let_rows_die(que)
    assert row_of_the_table(look_at(que.direct))["due at"] == "off"


def test_a_claim_that_reads_more_pages_than_earlier_is_named_with_both(que: TestDatabase, holder: Connection) -> None:
    with opened_queue("que", {}, que.direct, "worker") as queue:
        queue.enqueue([NewJob(payload="{}")] * 20)
        for _ in range(10):
            (claim,) = queue.claim()
            queue.complete(claim)
        with observer_of(que.direct) as observer:
            observer.read()
            let_rows_die(que)
            for _ in range(LEFT):
                (claim,) = queue.claim()
                queue.complete(claim)
            observation = observer.read(reads_everything=True)
    section = section_of(observation, "Statements")
    (row,) = [row for row in section.rows if row[0].startswith("claim: ")]
    now, earlier = (int(cell.replace(",", "")) for cell in row[-2:])
    assert now > 200 > earlier
    finding = finding_about(observation, "The claim statement takes")
    assert f"reads {row[-2]} buffers (8 kB) per call" in finding.sentence
    assert f"times as many as earlier ({row[-1]})" in finding.sentence
    assert "until this observation began" in text_of(section)


def test_the_distance_to_wraparound_is_that_of_the_oldest_database(que: TestDatabase) -> None:
    section = section_of(look_at(que.direct), "Wraparound")
    (sentence,) = section.sentences
    left = int(sentence.partition(" transaction ids left")[0].replace(",", ""))
    oldest = ask(que, "SELECT max(age(datfrozenxid)) FROM pg_database")
    assert left == pytest.approx(2**31 - 3_000_000 - oldest, abs=1_000)
    assert not section.findings


def test_a_notification_queue_that_fills_is_a_finding_before_it_is_full(
    que: TestDatabase, open_connection: OpenConnection
) -> None:
    assert "The notification queue is empty. 0 clients not reading." in text_of(section_of(look_at(que.direct), "Notifications"))
    listener = open_connection(que.direct, "application")
    listener.execute("LISTEN jobs")
    listener.execute("BEGIN")
    listener.execute("SELECT 1")
    with connect(que.direct, "load") as client:
        client.execute(f"SELECT pg_notify('jobs', repeat('x', 7900) || n) FROM generate_series(1, {NOTIFICATIONS}) AS n")
    observation = look_at(que.direct)
    finding = finding_about(observation, "The notification queue is ")
    assert finding.severity is Severity.WARNING
    assert "has been in a transaction for long" in finding.sentence
    assert "% full" in text_of(section_of(observation, "Notifications"))
    listener.execute("COMMIT")
    listener.close()
    wait_for(lambda: "is empty" in text_of(section_of(look_at(que.direct), "Notifications")), "an empty queue")


def due_tables(finding: Finding) -> list[str]:
    """The tables that it says are due, without the server's catalogs: other tests of the same server leave dead rows in them."""
    words, _, names = finding.sentence.removesuffix(".").partition(" due for a vacuum: ")
    named = names.split(", ")
    assert int(words.rpartition(", and ")[2].split()[0]) == len(named), "each is named"
    return [name for name in named if not name.removeprefix("pg_catalog.").startswith("pg_")]


def test_the_suggested_vacuum_names_a_table_that_is_overdue(que: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The busiest tables that are shown may be others, and one with autovacuum off is never due."""
    monkeypatch.setattr("stallbench.observe.postgres.tables.read_workers", lambda _: (0, []))
    many = [f"many_{number}" for number in range(9)]
    with connect(que.direct, "load") as client:
        for table, rows, enabled in (('"a due one"', DUE, "on"), *((table, DUE + 10, "off") for table in many)):
            settings = f"autovacuum_vacuum_threshold = 10, autovacuum_enabled = {enabled}"
            client.execute(f"CREATE TABLE {table} WITH ({settings}) AS SELECT generate_series(1, {rows}) AS n")
            client.execute(f"DELETE FROM {table}")
    count = "SELECT sum(pg_stat_get_dead_tuples(oid)) FROM pg_class WHERE relname LIKE 'many%' OR relname = 'a due one'"
    wait_for(lambda: ask(que, count) == DUE + 9 * (DUE + 10), "the counts of dead rows")
    observation = look_at(que.direct)
    finding = finding_about(observation, "due for a vacuum")
    assert due_tables(finding) == ['public."a due one"']
    assert finding.statement == 'VACUUM public."a due one";'
    due, _, _ = finding.sentence.partition(" due for a vacuum")
    assert f"{due.rpartition(', and ')[2].split()[0]} table" in text_of(section_of(observation, "Tables"))


def test_the_suggested_vacuum_is_of_no_table_that_is_being_vacuumed(
    que: TestDatabase, monkeypatch: pytest.MonkeyPatch, open_connection: OpenConnection
) -> None:
    """A second VACUUM of a table waits for the first, and makes one of autovacuum give up."""
    monkeypatch.setattr("stallbench.observe.postgres.tables.read_workers", lambda _: (0, []))
    with connect(que.direct, "load") as client:
        for table, rows in (("in_vacuum", 50_000), ("due", DUE)):
            client.execute(
                f"CREATE TABLE {table} WITH (autovacuum_vacuum_threshold = 10) AS SELECT generate_series(1, {rows}) AS n"
            )
            client.execute(f"DELETE FROM {table}")
    count = "SELECT sum(pg_stat_get_dead_tuples(oid)) FROM pg_class WHERE relname IN ('in_vacuum', 'due')"
    wait_for(lambda: ask(que, count) == 50_000 + DUE, "the counts of dead rows")
    vacuum = open_connection(que.direct, "vacuum")
    vacuum.execute("SET vacuum_cost_delay = 100")
    vacuum.execute("SET vacuum_cost_limit = 1")
    vacuum.pgconn.send_query(b"VACUUM in_vacuum")
    try:
        wait_for(lambda: ask(que, "SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 'in_vacuum'::regclass") == 1, "it")
        finding = finding_about(look_at(que.direct), "due for a vacuum")
    finally:
        vacuum.cancel()
        while vacuum.pgconn.get_result():
            pass
    assert due_tables(finding) == ["public.due"]
    assert finding.statement == "VACUUM public.due;"


def test_a_table_that_another_session_has_locked_lacks_only_its_own_sizes(
    que: TestDatabase, open_connection: OpenConnection
) -> None:
    let_rows_die(que)
    with connect(que.direct, "load") as client:
        client.execute("CREATE TABLE other AS SELECT generate_series(1, 5000) AS n")
        client.execute("DELETE FROM other")
    wait_for(lambda: ask(que, "SELECT pg_stat_get_dead_tuples('other'::regclass)") == 5000, "the count of dead rows")
    locker = open_connection(que.direct, "locker")
    locker.execute("BEGIN")
    locker.execute("LOCK TABLE que_jobs")
    with observer_of(que.direct) as observer:
        for _ in range(2):
            observation = observer.read(reads_everything=True)
            section = section_of(observation, "Tables")
            rows = {row[0]: dict(zip(section.columns, row, strict=True)) for row in section.rows}
            assert (rows["public.que_jobs"]["dead rows"], rows["public.que_jobs"]["size"]) == ("12,000", "locked")
            assert rows["public.other"]["size"].endswith("kB")
            assert "size of public.que_jobs: another session has locked it" in cannot_see(observation)
        locker.execute("COMMIT")
        assert "locked" not in text_of(section_of(observer.read(reads_everything=True), "Tables"))


def test_a_locked_index_hides_the_sizes_of_its_table(que: TestDatabase, open_connection: OpenConnection) -> None:
    locker = open_connection(que.direct, "locker")
    locker.execute("BEGIN")
    locker.execute("REINDEX TABLE que_jobs")
    assert row_of_the_table(look_at(que.direct))["indexes"] == "locked"


def test_a_partition_that_is_locked_does_not_hide_that_the_table_is_a_queue(
    que: TestDatabase, open_connection: OpenConnection
) -> None:
    with connect(que.direct, "admin") as admin:
        admin.execute("CREATE TABLE jobs (n int) PARTITION BY RANGE (n)")
        admin.execute("CREATE TABLE jobs_1 PARTITION OF jobs FOR VALUES FROM (0) TO (10)")
        admin.execute("CREATE TABLE jobs_2 PARTITION OF jobs FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (n)")
        admin.execute("CREATE TABLE jobs_3 PARTITION OF jobs_2 FOR VALUES FROM (10) TO (20)")
    locker = open_connection(que.direct, "locker")
    locker.execute("BEGIN")
    locker.execute("LOCK TABLE jobs_3")
    observation = look_at(que.direct, tables=("public.jobs",))
    sizes = {row[0]: row[-3] for row in section_of(observation, "Tables").rows}
    assert sizes == {"public.jobs_1": "0 B", "public.jobs_3": "locked"}
    assert "another session has locked the table" in cannot_see(observation)
    assert section_of(observation, "Queues").rows[0][0] == "unknown queue (public.jobs)"


def test_the_log_says_of_each_table_what_its_own_last_vacuum_left(que: TestDatabase, tmp_path: Path) -> None:
    with connect(que.direct, "admin") as admin:
        for schema in ("tenant_1", "tenant_2"):
            admin.execute(f"CREATE SCHEMA {schema}")
            admin.execute(f"CREATE TABLE {schema}.que_jobs (LIKE public.que_jobs)")
    log = tmp_path / "server.log"
    database = que.direct.database
    tables = {f"{database}.tenant_1.que_jobs": 5, f"{database}.tenant_2.que_jobs": 7, "other.tenant_1.que_jobs": 9}
    log.write_text("".join(VACUUM.format(table=table, kept=kept) for table, kept in tables.items()))
    with observer_of(que.direct, tables=("tenant_1.que_jobs", "tenant_2.que_jobs", "public.que_jobs"), log=log) as observer:
        section = section_of(observer.read(), "Tables")
        left = {row[0]: dict(zip(section.columns, row, strict=True))["it left"] for row in section.rows}
        assert left == {"tenant_1.que_jobs": "5", "tenant_2.que_jobs": "7", "public.que_jobs": ""}
        log.rename(tmp_path / "server.log.1")
        replaced = observer.read(reads_everything=True)
        assert f"what vacuums could not remove: the log {log}: No such file" in cannot_see(replaced)
        assert section_of(replaced, "Tables").rows
        log.write_text(VACUUM.format(table=f"{database}.public.que_jobs", kept=11))
        assert "the log" not in cannot_see(again := observer.read(reads_everything=True))
        assert [row[5] for row in section_of(again, "Tables").rows if row[0] == "public.que_jobs"] == ["11"]


def test_of_a_large_log_only_the_end_is_read(que: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.tables.LAST_BYTES", 1000)
    log = tmp_path / "server.log"
    log.write_text(VACUUM.format(table=f"{que.direct.database}.public.que_jobs", kept=5) + "something else\n" * 100)
    with observer_of(que.direct, log=log) as observer:
        assert row_of_the_table(observer.read())["it left"] == ""
        with log.open("a") as file:
            file.write(VACUUM.format(table=f"{que.direct.database}.public.que_jobs", kept=7))
        assert row_of_the_table(observer.read(reads_everything=True))["it left"] == "7"
