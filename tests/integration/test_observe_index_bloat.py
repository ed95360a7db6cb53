"""An index that is mostly empty, and a GIN index with a long pending list: `stallbench observe` names them with the statement that ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.observer import Observation
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import cannot_see, finding_about, observer_of
from tests.integration.observed_states import record_state
from tests.integration.test_observe import role
from tests.integration.test_observe_tables import vacuum
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OpenConnection = Callable[..., Connection]
JOBS, LEFT = 300_000, 3
TABLE = f"""
CREATE TABLE que_jobs (job_id bigserial PRIMARY KEY, job_class text);
INSERT INTO que_jobs (job_class) SELECT md5(n::text) FROM generate_series(1, {JOBS}) AS n;
CREATE INDEX que_jobs_by_class ON que_jobs (job_class, job_id);
ANALYZE que_jobs
"""
WITH_GIN = """
CREATE TABLE que_jobs (job_id bigserial PRIMARY KEY, tags text[]);
CREATE INDEX que_jobs_by_tag ON que_jobs USING gin (tags) WITH (gin_pending_list_limit = 65536);
"""
ENQUEUE = "INSERT INTO que_jobs (tags) SELECT ARRAY[md5(n::text), md5((n + 1)::text)] FROM generate_series(1, 20000) AS n"


@pytest.fixture
def bloated(database: TestDatabase) -> Endpoint:
    """A queue's table whose rows are gone, all but a few, which are at the end of both indexes."""
    with connect(database.direct, "fixture") as admin:
        admin.execute(TABLE)
        admin.execute("DELETE FROM que_jobs WHERE job_id <= %s", (JOBS - LEFT,))
        dead = "SELECT pg_stat_get_dead_tuples('que_jobs'::regclass)"
        wait_for(lambda: admin.execute(dead).fetchone() == (JOBS - LEFT,), "the count of dead rows")

        def is_vacuumed() -> bool:
            vacuum(database)
            admin.execute("ANALYZE que_jobs")
            return admin.execute(dead).fetchone() == (0,)

        wait_for(is_vacuumed, "a vacuum that removes the dead rows")
    return database.direct


def look_until_found(endpoint: Endpoint, words: str) -> Observation:
    def find() -> Observation | None:
        with observer_of(endpoint, tables=("que_jobs",)) as observer:
            observation = observer.read()
        return observation if any(words in one.sentence for one in observation.findings) else None

    return wait_for(find, f"a finding about {words}")


def test_a_mostly_empty_index_is_rebuilt_by_the_statement_that_is_named(bloated: Endpoint) -> None:
    observation = look_until_found(bloated, "The index public.que_jobs_by_class takes")
    finding = finding_about(observation, "The index public.que_jobs_by_class takes")
    assert finding.statement == "REINDEX INDEX CONCURRENTLY public.que_jobs_by_class;"
    record_state(
        f"an index of {JOBS:,} jobs that were completed and vacuumed, all but {LEFT}; no long transaction".replace(",", " "),
        "the index has hardly an entry: REINDEX",
        observation,
    )
    with connect(bloated, "test") as admin:
        before = admin.execute("SELECT pg_relation_size('que_jobs_by_class')").fetchone()
        admin.execute(finding.statement.encode())
        after = admin.execute("SELECT pg_relation_size('que_jobs_by_class')").fetchone()
        assert before is not None
        assert after is not None
        assert after[0] < before[0] / 100
    with observer_of(bloated, tables=("que_jobs",)) as observer:
        assert "The index public.que_jobs_by_class" not in str(observer.read().findings)


def test_no_rebuilding_is_suggested_that_would_wait_for_a_transaction(
    bloated: Endpoint, open_connection: OpenConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.indexes.LONG_TRANSACTION_S", 0.0)
    reader = open_connection(bloated, "report")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM que_jobs")  # at READ COMMITTED it holds no snapshot any more, and still the lock
    observation = look_until_found(bloated, "The index public.que_jobs_by_class takes")
    finding = finding_about(observation, "The index public.que_jobs_by_class takes")
    assert f"would wait for session {reader.info.backend_pid}, whose transaction is" in finding.sentence
    assert not finding.statement


def test_a_long_pending_list_is_named_with_the_statement_that_empties_it(database: TestDatabase) -> None:
    with connect(database.direct, "fixture") as admin:
        admin.execute("CREATE SCHEMA inspection; CREATE EXTENSION pgstattuple SCHEMA inspection")
        admin.execute(WITH_GIN)
        admin.execute(ENQUEUE)
        with observer_of(database.direct, tables=("que_jobs",)) as observer:
            observation = observer.read()
            finding = finding_about(observation, "wait in a list of")
            assert finding.sentence.startswith("20,000 new rows of public.que_jobs wait in a list of 2.0 MB")
            record_state(
                "20 000 jobs enqueued into a table with a GIN index whose `gin_pending_list_limit` is 64 MB; `pgstattuple` is installed",
                "the pending list: `gin_clean_pending_list`, or a vacuum",
                observation,
            )
            admin.execute(finding.statement.encode())
            assert "wait in a list of" not in str(observer.read(reads_everything=True).findings)
            admin.execute(ENQUEUE)
            admin.execute(finding.other_ways[0].statement.encode())
            admin.execute(finding.statement.encode())
            admin.execute(ENQUEUE)
            assert "wait in a list of" not in str(observer.read(reads_everything=True).findings), "none is kept any more"


def test_without_the_extension_it_says_so_if_the_index_is_searched(database: TestDatabase) -> None:
    with connect(database.direct, "fixture") as admin:
        admin.execute(WITH_GIN)
        admin.execute(ENQUEUE)
        with observer_of(database.direct, tables=("que_jobs",)) as observer:
            assert "GIN" not in cannot_see(observer.read()), "nothing searches it"
            admin.execute("SET enable_seqscan = off")
            admin.execute("SELECT count(*) FROM que_jobs WHERE tags @> ARRAY[md5('1')]")

            def find() -> str | None:
                said = cannot_see(observer.read(reads_everything=True))
                return said if "GIN index public.que_jobs_by_tag" in said else None

            assert "CREATE EXTENSION pgstattuple;" in wait_for(find, "the count of searches")


def test_no_function_of_another_user_is_executed(database: TestDatabase) -> None:
    """One that has the name of the extension's, in the schema of the extension, and another one that an other user owns."""
    with role(database, "mallory", f"GRANT CREATE ON DATABASE {database.direct.database} TO mallory"):
        with connect(database.direct, "fixture") as admin:
            admin.execute("CREATE SCHEMA inspection AUTHORIZATION mallory; CREATE EXTENSION pgstattuple SCHEMA inspection")
            admin.execute("CREATE TABLE executed (n int); GRANT INSERT ON executed TO PUBLIC")
            admin.execute("ALTER FUNCTION inspection.pgstatginindex(regclass) OWNER TO mallory")
            admin.execute(WITH_GIN)
            admin.execute(ENQUEUE)
            with observer_of(database.direct, tables=("que_jobs",)) as observer:
                observation = observer.read()
        assert "wait in a list of" not in str(observation.findings)
        with connect(database.direct, "fixture") as admin:
            admin.execute("DROP SCHEMA inspection CASCADE")
