"""What `stallbench observe` says of dead rows: what keeps them, what removes them, and when they are no problem. Each statement is executed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.diagnostic import Finding, Severity
from stallbench.observe.observer import Observation, Observer
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import Connection
from tests.integration.held_database import FEEDBACK_S, HeldDatabase, database_name, held, prompt_feedback
from tests.integration.observed import finding_about, observer_of, section_of
from tests.integration.observed_states import record_state
from tests.integration.test_observe import role
from tests.waiting import wait_for

pytestmark = pytest.mark.integration
__all__ = ["database_name", "held", "prompt_feedback"]

OpenConnection = Callable[..., Connection]
DEAD = 12_000
LIVE = 3
SNAPSHOT = ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class")
LOG = """2026-01-01 [1] LOG:  automatic vacuum of table "{table}": index scans: 0
\tpages: 0 removed, 447 remain, 447 scanned (100.00% of total)
\ttuples: 17 removed, 20062 remain, 180 are dead but not yet removable
"""


@pytest.fixture
def quick_feedback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replica of these tests reports each second, and not each ten, so that its report is to blame sooner."""
    monkeypatch.setattr("stallbench.observe.postgres.dead_rows.FEEDBACK_DELAY_S", 2.0 + FEEDBACK_S)


@pytest.fixture
def que(held: HeldDatabase) -> Iterator[HeldDatabase]:
    """A database with Que's table, statements that are counted, and nothing that holds the horizon."""
    with opened_queue("que", {}, primary_of(held), "fixture") as queue:
        queue.install()
    held.primary.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    held.wait_until_vacuum_removes()
    yield held
    held.primary.execute("DROP TABLE que_jobs CASCADE")
    held.primary.execute("DROP EXTENSION pg_stat_statements")


def primary_of(held: HeldDatabase) -> Endpoint:
    return held.cluster.server("primary").direct.model_copy(update={"database": held.name})


def replica_of(held: HeldDatabase) -> Endpoint:
    return held.cluster.server("replica-1").direct.model_copy(update={"database": held.name})


def let_rows_die(held: HeldDatabase, table: str = "que_jobs") -> None:
    """Enqueue and delete jobs, and wait until the server has counted the dead rows."""
    with connect(primary_of(held), "load") as client:
        if table == "que_jobs":
            client.execute(f"INSERT INTO que_jobs (job_class) SELECT 'job' FROM generate_series(1, {DEAD + LIVE})")
            client.execute(f"DELETE FROM que_jobs WHERE job_id <= (SELECT max(job_id) - {LIVE} FROM que_jobs)")
        else:
            client.execute(f"INSERT INTO {table} SELECT n, repeat('x', 500) FROM generate_series(1, {DEAD}) AS n".encode())
            client.execute(f"DELETE FROM {table} WHERE id > {LIVE}".encode())
    wait_for(lambda: count_dead(held, table) >= DEAD - LIVE, "the count of dead rows")


def count_dead(held: HeldDatabase, table: str = "que_jobs") -> int:
    (count,) = held.primary.execute(f"SELECT pg_stat_get_dead_tuples('{table}'::regclass)".encode()).fetchone() or (0,)
    return int(count)


@contextmanager
def load_on(held: HeldDatabase, rows: int) -> Iterator[None]:
    """Enqueue and delete so many jobs in a transaction, as often as the server can."""
    stop = Event()

    def work() -> None:
        with connect(primary_of(held), "load") as client:
            while not stop.wait(0.02):
                client.execute(f"INSERT INTO que_jobs (job_class) SELECT 'job' FROM generate_series(1, {rows})")
                client.execute("DELETE FROM que_jobs WHERE job_id IN (SELECT job_id FROM que_jobs)")

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def offered(observation: Observation) -> list[str]:
    """Every statement that the findings offer."""
    return [
        statement
        for one in observation.findings
        for statement in (one.statement, *(way.statement for way in one.other_ways))
        if statement
    ]


def look_until(observer: Observer, says: Callable[[Observation], Finding | None], what: str) -> tuple[Observation, Finding]:
    def find() -> tuple[Observation, Finding] | None:
        observation = observer.read(reads_everything=True)
        finding = says(observation)
        return (observation, finding) if finding else None

    return wait_for(find, what)


def named(words: str) -> Callable[[Observation], Finding | None]:
    return lambda observation: next((one for one in observation.findings if words in one.sentence), None)


def test_behind_a_replica_s_feedback_no_vacuum_is_offered_and_the_query_finds_the_session(
    que: HeldDatabase, open_connection: OpenConnection, quick_feedback: None
) -> None:
    reader = open_connection(replica_of(que), "reader")
    for statement in SNAPSHOT:
        reader.execute(statement.encode())
    let_rows_die(que)
    with observer_of(primary_of(que)) as observer:
        observer.read()
        assert que.kept_dead_rows("que_jobs") == DEAD
        observation, finding = look_until(observer, named("replica-1 holds the horizon"), "what the vacuum left")
    assert "Replica replica-1 holds the horizon" in finding.sentence
    assert "que_jobs has 12,000 dead rows beside 3 live rows" in finding.sentence
    assert finding.severity is Severity.CRITICAL
    assert finding.only_shows
    assert not any("VACUUM" in one for one in offered(observation))
    record_state(
        "a query on a replica with feedback, younger than a minute",
        "the session on the replica; VACUUM removes nothing",
        observation,
    )
    assert finding.where == "on the replica replica-1"
    with connect(replica_of(que), "test") as on_replica:
        pids = [row[0] for row in on_replica.execute(finding.statement.encode()).fetchall()]
        assert reader.info.backend_pid in pids
        on_replica.execute("SELECT pg_terminate_backend(%s)", (reader.info.backend_pid,))
    que.wait_until_vacuum_removes("que_jobs")


def test_with_the_replica_s_address_the_session_on_it_is_named_and_its_statement_frees_the_rows(
    que: HeldDatabase, open_connection: OpenConnection
) -> None:
    reader = open_connection(replica_of(que), "reader")
    for statement in SNAPSHOT:
        reader.execute(statement.encode())
    let_rows_die(que)
    with observer_of(primary_of(que), {"replica-1": replica_of(que)}) as observer:
        observer.read()
        assert que.kept_dead_rows("que_jobs") == DEAD
        observation, finding = look_until(observer, named("could not remove"), "what the vacuum left")
    record_state("the same, with the replica's address", "the session on the replica", observation)
    assert (finding.statement, finding.where) == (
        f"SELECT pg_terminate_backend({reader.info.backend_pid});",
        "on replica-1",
    )
    assert f"database {que.name}" not in finding.sentence, "it is the observed one"
    assert not any("VACUUM" in one for one in offered(observation))
    with connect(replica_of(que), "test") as on_replica:
        on_replica.execute(finding.statement.encode())
    que.wait_until_vacuum_removes("que_jobs")


@pytest.mark.parametrize("is_monitor", [True, False], ids=["with pg_monitor", "without"])
def test_a_session_is_named_however_young_if_a_vacuum_could_not_remove_what_died_since(
    que: HeldDatabase, open_connection: OpenConnection, is_monitor: bool
) -> None:
    holder = open_connection(primary_of(que), "report")
    for statement in SNAPSHOT:
        holder.execute(statement.encode())
    let_rows_die(que)
    database = type("", (), {"direct": primary_of(que)})()
    with (
        role(database, "on_call", *(["GRANT pg_monitor TO on_call"] if is_monitor else [])) as endpoint,
        observer_of(endpoint) as observer,
    ):
        observer.read()
        assert que.kept_dead_rows("que_jobs") == DEAD
        observation, finding = look_until(observer, named("could not remove"), "what the vacuum left")
    assert finding.statement == f"SELECT pg_terminate_backend({holder.info.backend_pid});"
    assert finding.severity is Severity.CRITICAL
    assert "and left 12,000 dead rows that it could not remove" in finding.sentence
    assert f"database {que.name}" not in finding.sentence, "it is the observed one"
    assert not any("VACUUM" in one for one in offered(observation))
    right = "as a member of pg_monitor" if is_monitor else "without pg_monitor"
    record_state(f"a transaction of some seconds, behind which a vacuum left dead rows, {right}", "that transaction", observation)
    que.primary.execute(finding.statement.encode())
    que.wait_until_vacuum_removes("que_jobs")


def test_a_refresh_that_keeps_what_dies_meanwhile_is_named_and_no_vacuum(
    que: HeldDatabase, open_connection: OpenConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.dead_rows.YOUNG_HOLDER_S", 1.0)
    que.primary.execute("CREATE OR REPLACE FUNCTION slowly() RETURNS text LANGUAGE sql AS 'SELECT pg_sleep(3600)::text'")
    que.primary.execute("CREATE MATERIALIZED VIEW slow_figures AS SELECT slowly() WITH NO DATA")
    refresh = open_connection(primary_of(que), "nightly")
    refresh.pgconn.send_query(b"REFRESH MATERIALIZED VIEW slow_figures")
    pid = refresh.info.backend_pid
    running = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND backend_xmin IS NOT NULL AND wait_event = 'PgSleep'"
    wait_for(lambda: que.primary.execute(running, (pid,)).fetchone(), "the refresh")
    with load_on(que, 500), observer_of(primary_of(que)) as observer:
        observation, finding = look_until(
            observer,
            lambda seen: next((one for one in seen.findings if f"_backend({pid});" in one.statement), None),
            "the refresh",
        )
    assert "REFRESH MATERIALIZED VIEW" in finding.sentence
    assert "dead rows beside" in finding.sentence
    assert not any("VACUUM" in one for one in offered(observation))
    record_state("REFRESH MATERIALIZED VIEW while jobs are written", "the refresh; VACUUM removes nothing", observation)
    que.primary.execute(finding.statement.encode())
    wait_for(lambda: not que.primary.execute(running, (pid,)).fetchone(), "the end of the refresh")
    que.wait_until_vacuum_removes("que_jobs")
    for statement in ("DROP MATERIALIZED VIEW slow_figures", "DROP FUNCTION slowly()"):
        que.primary.execute(statement.encode())


def test_a_transaction_that_began_after_the_rows_died_is_innocent_and_a_vacuum_is_offered(
    que: HeldDatabase, open_connection: OpenConnection
) -> None:
    let_rows_die(que)
    with observer_of(primary_of(que)) as observer:
        observer.read()
        que.primary.execute("SELECT pg_current_xact_id()")  # the first reading was before it
        late = open_connection(primary_of(que), "late")
        for statement in SNAPSHOT:
            late.execute(statement.encode())
        statement = "VACUUM public.que_jobs;"

        def is_offered(seen: Observation) -> Finding | None:
            return next(
                (one for one in seen.findings if statement in (one.statement, *(way.statement for way in one.other_ways))), None
            )

        observation, finding = look_until(observer, is_offered, "the vacuum")
    assert not any(str(late.info.backend_pid) in one for one in offered(observation))
    assert finding.severity is Severity.NOTE, "that they cost anything is not shown"
    record_state(
        "a transaction that began after the rows had died", "VACUUM removes them; the transaction is innocent", observation
    )
    que.primary.execute(statement.encode())
    assert que.kept_dead_rows("que_jobs") == 0
    assert count_dead(que) == 0


def test_whether_a_vacuum_helps_is_unknown_if_a_transaction_began_before_the_first_look(
    que: HeldDatabase, open_connection: OpenConnection
) -> None:
    early = open_connection(primary_of(que), "early")
    for statement in SNAPSHOT:
        early.execute(statement.encode())
    let_rows_die(que)
    with observer_of(primary_of(que)) as observer:
        observer.read()
        observation = observer.read(reads_everything=True)
    finding = finding_about(observation, "que_jobs has 12,000 dead rows")
    assert "Whether a vacuum would remove them now is not known." in finding.sentence
    assert f"session {early.info.backend_pid} " not in finding.sentence, "it is a few seconds old"
    assert offered(observation) == []
    record_state("a young transaction, and dead rows of which no vacuum is known", "not known from one reading", observation)


def test_dead_rows_that_cost_the_claim_nothing_are_no_finding(que: HeldDatabase) -> None:
    """Those of jobs with another priority are not among what a claim reads."""
    with opened_queue("que", {}, primary_of(que), "worker") as queue:
        que.primary.execute(f"INSERT INTO que_jobs (priority, job_class) SELECT 500, 'job' FROM generate_series(1, {DEAD})")
        que.primary.execute("DELETE FROM que_jobs")
        queue.enqueue([NewJob(payload="{}")] * 20)
        wait_for(lambda: count_dead(que) >= DEAD, "the count of dead rows")
        with observer_of(primary_of(que)) as observer:
            observer.read()
            for _ in range(5):
                (claim,) = queue.claim()
                queue.complete(claim)
            observation = observer.read(reads_everything=True)
    assert [row for row in section_of(observation, "Statements").rows if row[0].startswith("claim: ")]
    others = [one for one in observation.findings if (one.subject, one.about) != ("autovacuum", "server")]
    assert not [one for one in others if "que_jobs" in one.sentence]
    truth = "nothing is wrong, except that the server of this test runs without autovacuum"
    record_state("a healthy queue with dead rows that no claim reads", truth, observation)


def test_dead_rows_that_each_claim_reads_past_are_a_finding_and_the_vacuum_that_is_offered_ends_it(que: HeldDatabase) -> None:
    que.primary.execute("CREATE TABLE plain_jobs (id int, payload text) WITH (autovacuum_enabled = on)")
    claim = b"SELECT id FROM plain_jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
    let_rows_die(que, "plain_jobs")
    with observer_of(primary_of(que), tables=("public.plain_jobs",)) as observer:
        observer.read()
        que.primary.execute("SELECT pg_current_xact_id()")

        def read() -> Observation:
            for _ in range(5):
                que.primary.execute(claim)
            return observer.read(reads_everything=True)

        def find() -> tuple[Observation, Finding] | None:
            seen = read()
            finding = next((one for one in seen.findings if one.statement == "VACUUM public.plain_jobs;"), None)
            return (seen, finding) if finding else None

        observation, finding = wait_for(find, "a vacuum that would work")
        assert finding.severity is Severity.CRITICAL
        assert "A claim takes" in finding.sentence
        record_state("dead rows that every claim reads past, and nothing that keeps them", "VACUUM", observation)
        que.primary.execute(finding.statement.encode())
        assert que.kept_dead_rows("plain_jobs") == 0
        wait_for(lambda: not [one for one in read().findings if "plain_jobs" in one.sentence], "a report without it")
    que.primary.execute("DROP TABLE plain_jobs")


def left_of(observation: Observation) -> str:
    section = section_of(observation, "Tables")
    (row,) = [row for row in section.rows if row[0].endswith("que_jobs")]
    return dict(zip(section.columns, row, strict=True))["it left"]


def test_what_a_vacuum_left_is_not_confused_with_what_died_after_it(que: HeldDatabase, tmp_path: Path) -> None:
    let_rows_die(que)
    log = tmp_path / "server.log"
    log.touch()
    with observer_of(primary_of(que)) as observer, observer_of(primary_of(que), log=log) as with_log:
        for one in (observer, with_log):
            assert left_of(one.read()) == ""
        que.wait_until_vacuum_removes("que_jobs")
        vacuums = "SELECT pg_stat_get_vacuum_count('que_jobs'::regclass)"
        (count,) = que.primary.execute(vacuums).fetchone() or (0,)
        que.primary.execute("INSERT INTO que_jobs (job_class) SELECT 'job' FROM generate_series(1, 1430)")
        que.primary.execute("DELETE FROM que_jobs")
        wait_for(lambda: count_dead(que) >= 1430, "the count of dead rows")
        observation = observer.read(reads_everything=True)
        expected = {"at most 1,433"} if count == 1 else {"", "at most 1,433"}
        assert left_of(observation) in expected
        record_state("1,433 rows that died after a vacuum that left none", "it left at most these", observation)
        log.write_text(LOG.format(table=f"{que.name}.public.que_jobs"))
        assert left_of(with_log.read(reads_everything=True)) in {"", "at most 1,433"}, "the last vacuum was not autovacuum's"


def test_no_vacuum_is_known_to_have_left_what_is_dead_at_the_first_look(que: HeldDatabase) -> None:
    let_rows_die(que)
    que.wait_until_vacuum_removes("que_jobs")
    let_rows_die(que)
    with observer_of(primary_of(que)) as observer:
        observation = observer.read()
    assert left_of(observation) == ""
    assert "could not remove" not in str(observation.findings)


@contextmanager
def overlapping_workers(held: HeldDatabase, number: int = 4) -> Iterator[None]:
    """Sessions that work in transactions of half a second, so that there is always one with a snapshot."""
    stop = Event()

    def work(delay_s: float) -> None:
        with connect(primary_of(held), "worker") as worker:
            stop.wait(delay_s)
            while not stop.is_set():
                for statement in SNAPSHOT:
                    worker.execute(statement.encode())
                stop.wait(0.5)
                worker.execute("COMMIT")

    threads = [Thread(target=work, args=(0.5 * each / number,)) for each in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def session_elsewhere(held: HeldDatabase, *statements: str) -> Iterator[Connection]:
    """A session in a transaction of another database."""
    held.primary.execute("CREATE DATABASE elsewhere")
    try:
        session = connect(primary_of(held).model_copy(update={"database": "elsewhere"}), "billing")
        for statement in ("BEGIN", *statements):
            session.execute(statement.encode())
        yield session
        session.close()
    finally:
        held.primary.execute("DROP DATABASE elsewhere WITH (FORCE)")


def test_the_first_look_offers_to_end_a_holder_in_another_database_that_is_not_young(
    que: HeldDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.dead_rows.YOUNG_HOLDER_S", 1.0)
    monkeypatch.setattr("stallbench.observe.postgres.horizon.LONG_TRANSACTION_S", 3600.0)
    with session_elsewhere(que, "CREATE TABLE written (n int)") as holder, overlapping_workers(que):
        let_rows_die(que)
        assert que.kept_dead_rows("que_jobs") == DEAD
        pid = holder.info.backend_pid
        is_old = "SELECT FROM pg_stat_activity WHERE pid = %s AND xact_start < clock_timestamp() - interval '1 s'"
        wait_for(lambda: que.primary.execute(is_old, (pid,)).fetchone() is not None, "an old transaction")

        def find() -> tuple[Observation, Finding] | None:
            """A replica's feedback, which is a moment older, may be named in its place."""
            with observer_of(primary_of(que)) as observer:
                observation = observer.read()
            found = [one for one in observation.findings if one.statement == f"SELECT pg_terminate_backend({pid});"]
            return (observation, found[0]) if found else None

        observation, finding = wait_for(find, "the holder in a first reading")
        record_state(
            "four workers whose snapshots overlap, a session of another database in a transaction that has written, and one reading",
            "that session: VACUUM removes nothing before its end",
            observation,
        )
        assert f'ession {pid} ("stallbench:billing"' in finding.sentence
        assert "database elsewhere" in finding.sentence
        assert "que_jobs has 12,000 dead rows" in finding.sentence
        assert finding.sentence.count("holds the horizon") == 1
        que.primary.execute(finding.statement.encode())
        que.wait_until_vacuum_removes("que_jobs")


def test_the_first_look_names_no_session_of_another_database_that_has_not_written(
    que: HeldDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.dead_rows.YOUNG_HOLDER_S", 3600.0)
    monkeypatch.setattr("stallbench.observe.postgres.dead_rows.FEEDBACK_DELAY_S", 3600.0)
    with session_elsewhere(que, "SELECT 1") as other, overlapping_workers(que):
        let_rows_die(que)
        que.wait_until_vacuum_removes("que_jobs")
        let_rows_die(que)
        with observer_of(primary_of(que)) as observer:
            observation = observer.read()
        assert not [one for one in observation.findings if str(other.info.backend_pid) in one.sentence]
        finding = finding_about(observation, "que_jobs has 12,0")
        assert "oldest holder" not in finding.sentence
        assert "session" not in finding.sentence, "all are young"
        record_state(
            "the same, where the session of the other database has only read",
            "nobody: a vacuum removes what died half a second ago",
            observation,
        )


def test_a_delayed_cleanup_is_named_with_the_setting_that_ends_it(que: HeldDatabase) -> None:
    if que.primary.info.server_version >= 160_000:
        pytest.skip("PostgreSQL 16 has no vacuum_defer_cleanup_age")
    que.primary.execute("ALTER SYSTEM SET vacuum_defer_cleanup_age = 1000000")
    que.primary.execute("SELECT pg_reload_conf()")
    setting = "SELECT current_setting('vacuum_defer_cleanup_age')"
    try:
        wait_for(lambda: que.primary.execute(setting).fetchone() == ("1000000",), "the setting")
        let_rows_die(que)
        with observer_of(primary_of(que)) as observer:
            observer.read()
            assert que.kept_dead_rows("que_jobs") == DEAD
            observation, finding = look_until(observer, named("vacuum_defer_cleanup_age is 1,000,000"), "the setting")
        record_state("vacuum_defer_cleanup_age = 1000000", "the setting; VACUUM removes nothing", observation)
        assert "que_jobs has 12,000 dead rows" in finding.sentence
        assert finding.statement.startswith("ALTER SYSTEM RESET vacuum_defer_cleanup_age;")
        assert not any("VACUUM" in one for one in offered(observation))
        for statement in finding.statement.split("; "):
            que.primary.execute(statement.encode())
        wait_for(lambda: que.primary.execute(setting).fetchone() == ("0",), "the end of the setting")
        que.wait_until_vacuum_removes("que_jobs")
        with observer_of(primary_of(que)) as observer:
            assert "vacuum_defer_cleanup_age" not in str(observer.read().findings)
    finally:
        que.primary.execute("ALTER SYSTEM RESET vacuum_defer_cleanup_age")
        que.primary.execute("SELECT pg_reload_conf()")
