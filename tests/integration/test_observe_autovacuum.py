"""Dead rows that stay because autovacuum is switched off: `stallbench observe` names the setting, and its statement ends it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.observe.diagnostic import Finding, Severity
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import finding_about, look_at, observer_of
from tests.integration.observed_states import record_state
from tests.integration.running_cluster import running_cluster
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

DEAD = 12_000
TABLE = "CREATE TABLE que_jobs (priority smallint, run_at timestamptz, job_id bigserial, job_class text, args json)"


@pytest.fixture(scope="module")
def vacuumed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestDatabase]:
    """A server of its own whose autovacuum looks for work every second."""
    settings: dict[str, str | int | float | bool] = {"autovacuum_naptime": 1, "fsync": False}
    with running_cluster(Database(settings=settings), tmp_path_factory.mktemp("cluster")) as started:
        primary = started.cluster.server("primary")
        yield TestDatabase(started.cluster, primary.direct, primary.proxied)


def delete_many(admin: Connection, table: str, *, beside: bool = False) -> None:
    """Leave dead rows in the table, or among its values beside it, and wait until the server has counted them."""
    value = "repeat(md5(n::text), 250)" if beside else "'x'"
    admin.execute(f"INSERT INTO {table} (job_class) SELECT {value} FROM generate_series(1, {DEAD}) AS n".encode())
    admin.execute(f"DELETE FROM {table}".encode())
    counted = (
        f"SELECT pg_stat_get_dead_tuples({'reltoastrelid' if beside else 'oid'}) FROM pg_class WHERE oid = '{table}'::regclass"
    )
    wait_for(lambda: (admin.execute(counted.encode()).fetchone() or (0,))[0] >= DEAD, "the count of dead rows")


def vacuums_end_it(database: TestDatabase, admin: Connection, finding: Finding) -> None:
    """Execute the statement, and wait until autovacuum has removed what the finding names."""
    for statement in finding.statement.split("; "):
        admin.execute(statement.encode())
    wait_for(lambda: finding.about not in [one.about for one in look_at(database.direct).findings], "autovacuum's work")


def test_a_table_whose_autovacuum_is_off_is_named_with_the_statement_that_lets_it_be_vacuumed(vacuumed: TestDatabase) -> None:
    with connect(vacuumed.direct, "admin") as admin:
        admin.execute(f"DROP TABLE IF EXISTS que_jobs; {TABLE}; ALTER TABLE que_jobs SET (autovacuum_enabled = off)".encode())
        delete_many(admin, "que_jobs")
        with observer_of(vacuumed.direct, tables=("que_jobs",)) as observer:
            observation = observer.read()
        finding = finding_about(observation, "autovacuum is switched off for the table (autovacuum_enabled = off)")
        assert finding.severity is Severity.CRITICAL, "the table of a queue"
        assert finding.sentence.startswith("public.que_jobs has 12,000 dead rows beside 0 live rows")
        assert finding.statement == "ALTER TABLE public.que_jobs RESET (autovacuum_enabled);"
        assert [one for one in observation.findings if "dead rows" in one.sentence] == [finding], "said once"
        record_state(
            "12 000 dead rows in the table of a queue; `autovacuum_enabled = off` for it",
            "the table's setting; RESET it, and VACUUM",
            observation,
        )
        vacuums_end_it(vacuumed, admin, finding)


def test_dead_values_beside_the_table_are_named_too(vacuumed: TestDatabase) -> None:
    with connect(vacuumed.direct, "admin") as admin:
        admin.execute(f"DROP TABLE IF EXISTS que_jobs; {TABLE}".encode())
        admin.execute("ALTER TABLE que_jobs ALTER job_class SET STORAGE EXTERNAL, SET (toast.autovacuum_enabled = off)")
        delete_many(admin, "que_jobs", beside=True)
        finding = finding_about(look_at(vacuumed.direct, tables=("que_jobs",)), "(toast.autovacuum_enabled = off)")
        assert finding.sentence.startswith("The values of public.que_jobs that are stored beside it (TOAST) have")
        assert finding.statement == "ALTER TABLE public.que_jobs RESET (toast.autovacuum_enabled);"
        vacuums_end_it(vacuumed, admin, finding)


@pytest.mark.parametrize("setting", ["autovacuum", "track_counts"])
def test_a_server_whose_autovacuum_does_not_work_is_named_with_the_statement_that_lets_it_work(
    vacuumed: TestDatabase, setting: str
) -> None:
    with connect(vacuumed.direct, "admin") as admin:
        admin.execute(f"DROP TABLE IF EXISTS que_jobs; {TABLE}".encode())
        admin.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        try:
            admin.execute("SELECT pg_reload_conf()")
            wait_for(lambda: admin.execute(f"SHOW {setting}".encode()).fetchone() == ("off",), "the setting")
            if setting == "autovacuum":
                delete_many(admin, "que_jobs")
            observation = look_at(vacuumed.direct, tables=("que_jobs",))
            finding = finding_about(observation, f"({setting} = off)")
            record_state(f"`{setting} = off` on the server, and dead rows", f"the setting `{setting}`", observation)
            vacuums_end_it(vacuumed, admin, finding)
        finally:
            admin.execute(f"ALTER SYSTEM RESET {setting}".encode())
            admin.execute("SELECT pg_reload_conf()")


def test_a_setting_of_the_command_line_is_not_said_to_end_with_a_statement(database: TestDatabase) -> None:
    """The shared servers run without autovacuum."""
    with connect(database.direct, "admin") as admin:
        admin.execute(TABLE)
        delete_many(admin, "que_jobs")
        finding = finding_about(look_at(database.direct), "Autovacuum is switched off on this server (autovacuum = off)")
    assert "public.que_jobs (12,000)" in finding.sentence
    assert "only a restart switches it on" in finding.sentence
    assert not finding.statement
