"""`stallbench observe` recognises the tables that libraries create themselves, and counts their jobs within bounds."""

from __future__ import annotations

import pytest

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines.postgres.driver import connect
from stallbench.libraries import find_library
from stallbench.libraries.installation import is_installed
from stallbench.observe.address import ObservedServers
from stallbench.observe.known_queue import find_known_queues
from stallbench.observe.postgres.job_counts import MOST_COUNTED, MOST_RUNNING, count_jobs
from stallbench.observe.postgres.load import sample_jobs
from stallbench.observe.postgres.observer import make_postgres_observer
from stallbench.observe.postgres.queues import QueuesDiagnostic
from stallbench.observe.postgres.recognition import find_queue_tables
from stallbench.observe.postgres.session import ReadOnlySession
from stallbench.queues import find_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.observed import cannot_see, finding_about, look_at, observer_of, section_of, text_of
from tests.integration.observed_states import record_state
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OF_LIBRARIES = [known.library for known in find_known_queues().values() if known.library]
RIVER = """
CREATE TYPE river_job_state AS ENUM ('available', 'running', 'completed');
CREATE TABLE river_job (id bigserial PRIMARY KEY, state river_job_state NOT NULL DEFAULT 'available', attempt int, attempted_at timestamptz,
  attempted_by text[], finalized_at timestamptz, max_attempts int, scheduled_at timestamptz DEFAULT now());
CREATE INDEX ON river_job (state, scheduled_at);
"""
"""The columns of River's table that it is recognised by; its own installation needs Go."""
DOCUMENTED = {
    "oban": "CREATE TYPE oban_job_state AS ENUM ('available', 'executing'); CREATE TABLE oban_jobs (id bigserial, state oban_job_state, "
    "queue text, worker text, args jsonb, attempt int, max_attempts int, inserted_at timestamp, scheduled_at timestamp, "
    "attempted_at timestamp, completed_at timestamp)",
    "good_job": "CREATE TABLE good_jobs (id uuid, queue_name text, serialized_params jsonb, scheduled_at timestamp, performed_at timestamp, "
    "finished_at timestamp, active_job_id uuid, concurrency_key text, created_at timestamp)",
    "solid_queue": "CREATE TABLE solid_queue_ready_executions (id bigint, job_id bigint, queue_name text, priority int, created_at timestamp); "
    "CREATE TABLE solid_queue_claimed_executions (id bigint, job_id bigint, process_id bigint, created_at timestamp); "
    "CREATE TABLE solid_queue_processes (id bigint, last_heartbeat_at timestamp)",
    "que_1": "CREATE TABLE que_jobs (priority smallint, run_at timestamptz, id bigint, job_class text, error_count int, last_error_message text, "
    "queue text, args jsonb, finished_at timestamptz, expired_at timestamptz)",
}
"""Tables with the columns that each library's documentation names."""


@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_a_library_s_own_tables_are_recognised_and_counted(empty_on: EmptyOn, name: str) -> None:
    library = find_library(name)
    if not is_installed(library):
        pytest.skip(f"{library.title} is not installed: stallbench libraries setup {name}")
    endpoint = empty_on("postgres")
    clear_schemas(endpoint)
    queue_type = find_queue(LIBRARY_PREFIX + name)
    with connect(endpoint, "fixture") as connection:
        queue = queue_type(connection, queue_type.options_type())
        queue.introduce(endpoint, "fixture")
        queue.install()
    session = ReadOnlySession(endpoint)
    try:
        (table,) = find_queue_tables(session)
        assert table.known is not None
        assert table.known.library == name
        counts = count_jobs(session, table)
        assert (counts.ready, counts.running) == (0, 0)
        assert table.known.recorded is not None
        assert sample_jobs(session, table, table.known.recorded, 1) == (None, {}), "the columns for a recorded load exist"
    finally:
        session.close()
        clear_schemas(endpoint)


def clear_schemas(endpoint: Endpoint) -> None:
    """Drop the schemas of their own that some libraries create."""
    with connect(endpoint, "fixture") as connection:
        for schema in ("pgboss", "graphile_worker"):
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_library_that_is_known_by_its_documentation_is_marked_as_untested(empty_on: EmptyOn, name: str) -> None:
    endpoint = empty_on("postgres")
    with connect(endpoint, "fixture") as connection:
        connection.execute(DOCUMENTED[name])
    queues = section_of(look_at(endpoint), "Queues")
    known = find_known_queues()[name]
    assert queues.rows[0][:2] == (f"{known.title} (public.{known.usual_table})", "0")
    assert f"{known.title}: recognised by its documentation, untested." in queues.sentences
    session = ReadOnlySession(endpoint)
    try:
        (table,) = find_queue_tables(session)
        assert known.recorded is not None
        assert sample_jobs(session, table, known.recorded, 1) == (None, {})
    finally:
        session.close()


@pytest.fixture
def river(empty_on: EmptyOn) -> Endpoint:
    """A database with River's table."""
    endpoint = empty_on("postgres")
    with connect(endpoint, "fixture") as connection:
        connection.execute(RIVER)
    return endpoint


def fill(endpoint: Endpoint, statement: str) -> None:
    with connect(endpoint, "fixture") as connection:
        connection.execute(statement)


def test_jobs_that_run_longer_than_the_rescue_interval_are_named(river: Endpoint) -> None:
    fill(
        river,
        "INSERT INTO river_job (state, attempted_at) SELECT 'running', now() - n * interval '25 minutes' FROM generate_series(0, 3) AS n",
    )
    observation = look_at(river)
    stuck = finding_about(observation, "1 of 4 running jobs have been running for longer than 60 min")
    assert "River (public.river_job)" in stuck.sentence


def test_a_queue_that_is_behind_is_found_by_its_oldest_job(river: Endpoint) -> None:
    fill(river, "INSERT INTO river_job (scheduled_at) SELECT now() - n * interval '1 minute' FROM generate_series(-1, 20) AS n")
    assert "21 jobs are ready, the oldest for 20 min" in finding_about(look_at(river), "is behind").sentence


CLAIM = (
    "WITH job AS (SELECT id FROM own_jobs WHERE ready ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) "
    "UPDATE own_jobs SET ready = false FROM job WHERE own_jobs.id = job.id"
)


@pytest.mark.parametrize("has_index", [False, True])
def test_claims_that_read_the_whole_table_are_found_without_pg_stat_statements(river: Endpoint, has_index: bool) -> None:
    fill(river, "CREATE TABLE own_jobs AS SELECT id, true AS ready FROM generate_series(1, 200000) AS id")
    if has_index:
        fill(river, "CREATE UNIQUE INDEX ON own_jobs (id); CREATE INDEX ON own_jobs (id) WHERE ready")
    fill(river, "ANALYZE own_jobs")
    counted = "SELECT n_tup_upd FROM pg_stat_all_tables WHERE relname = 'own_jobs'"
    with observer_of(river, tables=("own_jobs",)) as observer, connect(river, "test") as client:
        observer.read()
        with connect(river, "worker") as worker:
            for _ in range(20):
                worker.execute(CLAIM.encode())
        wait_for(lambda: client.execute(counted).fetchone() == (20,), "the count of claimed jobs")
        observation = observer.read(reads_everything=True)
    found = [one for one in observation.findings if "was read without an index" in one.sentence]
    record_state(
        f"200,000 ready jobs, and a claim {'with' if has_index else 'without'} an index",
        "nothing is wrong" if has_index else "each claim reads the whole table: an index is missing",
        observation,
    )
    if has_index:
        assert found == []
    else:
        (finding,) = found
        assert "public.own_jobs was read without an index" in finding.sentence
        assert "for each row that was changed" in finding.sentence


def test_a_count_stops_at_its_limit_and_says_so(river: Endpoint) -> None:
    fill(river, f"INSERT INTO river_job (id) SELECT generate_series(1, {MOST_COUNTED + 500})")
    assert f"| at least {MOST_COUNTED:,} |" in text_of(section_of(look_at(river), "Queues"))


def test_a_count_of_running_jobs_that_stops_at_its_limit_says_so_of_everything_that_it_counts(river: Endpoint) -> None:
    values = "'running', now() - interval '2 h', 1"
    fill(
        river,
        f"INSERT INTO river_job (state, attempted_at, attempt) SELECT {values} FROM generate_series(1, {MOST_RUNNING + 500})",
    )
    observation = look_at(river)
    assert "| at least 1,000 | at least 2 h 0 min | at least 1,000" in text_of(section_of(observation, "Queues"))
    assert "at least 1,000 of at least 1,000 running jobs have been running" in finding_about(observation, "running").sentence


def test_a_count_that_takes_too_long_is_given_up(river: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(river, "INSERT INTO river_job SELECT FROM generate_series(1, 200000)")
    for module in ("job_counts", "queues"):
        monkeypatch.setattr(f"stallbench.observe.postgres.{module}.COUNT_TIMEOUT_MS", 1)
        monkeypatch.setattr(f"stallbench.observe.postgres.{module}.MOST_COUNTED", 10_000_000)
    observation = look_at(river)
    assert "the count took too long, more than 1 ms" in cannot_see(observation)
    assert section_of(observation, "Who holds")


def test_a_table_that_the_user_names_is_counted_even_if_no_library_has_it(river: Endpoint) -> None:
    fill(river, "CREATE TABLE own_jobs AS SELECT generate_series(1, 7) AS n")
    missing = ("no_such_table", "no_such_schema.jobs", "a;b", "1.2.3.4.5", "other.public.jobs", "")
    observation = look_at(river, tables=("own_jobs", "public.own_jobs", *missing))
    assert [row[:2] for row in section_of(observation, "Queues").rows] == [("unknown queue (public.own_jobs)", "7")]
    for name in missing:
        assert f"table {name}: there is no such table in this database" in cannot_see(observation)


def test_a_name_with_capital_letters_that_is_not_found_is_suggested_in_quotes(river: Endpoint) -> None:
    fill(river, 'CREATE TABLE "Mails" (n int)')
    hidden = cannot_see(look_at(river, tables=("public.Mails",)))
    suggested = 'public."Mails"'
    assert f"give it as SCHEMA.TABLE, and a name with capital letters in double quotes, as in SQL: '{suggested}'" in hidden
    assert section_of(look_at(river, tables=(suggested,)), "Queues").rows[0][0] == f"unknown queue ({suggested})"
    assert "capital letters" not in cannot_see(look_at(river, tables=("mails",)))


def test_a_policy_cannot_make_a_count_wrong(river: Endpoint) -> None:
    fill(
        river,
        "CREATE ROLE tenant LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA public TO tenant; GRANT SELECT ON river_job TO tenant; "
        "ALTER TABLE river_job ENABLE ROW LEVEL SECURITY",
    )
    try:
        observation = look_at(river.model_copy(update={"user": "tenant", "password": type(river.password)("secret")}))
        assert section_of(observation, "Queues").rows[0][1] == "?"
        hidden = cannot_see(observation)
        assert "a row-level security policy would filter the rows" in hidden, "tenant has the right to read the table"
        assert 'ALTER ROLE "tenant" BYPASSRLS;' in hidden
        assert "GRANT SELECT" not in hidden
    finally:
        fill(river, "DROP OWNED BY tenant; DROP ROLE tenant; ALTER TABLE river_job DISABLE ROW LEVEL SECURITY")


def test_the_counts_of_a_look_that_failed_are_not_those_of_the_look_before(
    river: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are recorded for expectations, which must not be judged by old figures."""
    queues = QueuesDiagnostic(("river_job",))
    observer = make_postgres_observer(ObservedServers(primary=river, replicas={}), queues, None)
    try:
        observer.read()
        assert [one.ready for one in queues.counts.values()] == [0]
        fill(river, "ALTER TABLE river_job RENAME COLUMN state TO condition")
        observer.read(reads_everything=True)
        assert [one.ready for one in queues.counts.values()] == [None]
        fill(river, "DROP TABLE river_job")
        observer.read(reads_everything=True)
        assert [(one.ready, one.why_not) for one in queues.counts.values()] == [(None, "the table was dropped")]
        observer.read(reads_everything=True)
        assert list(queues.counts) == ["table river_job"], "it is searched again, and is missing"
    finally:
        observer.close()
