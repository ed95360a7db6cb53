"""A library's own migration under load: the newer version migrates the tables, and workers that start later run it."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.definition import VERSION
from stallbench.libraries.installation import installation_of
from stallbench.queues import NewJob, find_queue
from stallbench.queues.completed_jobs import RETAINED
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue_client import opened_queue
from stallbench.records.events import Event
from tests.integration.conftest import EmptyOn
from tests.integration.faulty_run import PATIENCE_S, FaultyRun, faulty_run
from tests.waiting import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

OF_PG_BOSS = "SELECT version FROM pgboss.version"
OF_GRAPHILE_WORKER = "SELECT max(id) FROM graphile_worker.migrations"
OF_RIVER = "SELECT max(version) FROM river_migration WHERE line = 'main'"
OF_PROCRASTINATE = "SELECT count(*) FROM pg_proc WHERE proname IN ('procrastinate_fetch_job_v1', 'procrastinate_fetch_job_v2')"
"""Version 3.0 has the first function. A migration before the deployment of 3.1 adds the second one, and one after it drops the first."""
OF_PGQUEUER = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'pgqueuer'::regclass AND attname = 'slot'"
OF_DJANGO_TASKS = "SELECT max(left(name, 4)::int) FROM django_migrations WHERE app = 'django_tasks_database'"
DUPLICATE_TABLE = "42P07"
BREAKING = 57
"""The exit code of graphile-worker if the schema is too new for it (dist/main.js)."""


EARLIER = [
    (name, str(version))
    for name, library in find_libraries().items()
    if library.migration
    for version in library.options[VERSION].one_of[:-1]
]
"""The earlier versions of libraries."""


@pytest.mark.parametrize(("name", "version"), EARLIER)
def test_the_statements_of_a_definition_are_also_for_the_tables_of_earlier_versions(
    empty_on: EmptyOn, name: str, version: str
) -> None:
    kind, library = f"library:{name}", find_library(name)
    find_queue(kind).require_programs(print)
    retained = {RETAINED: 10} if library.completed_jobs else {}
    with opened_queue(kind, {VERSION: version, **retained}, empty_on("postgres"), "test") as queue:
        assert isinstance(queue, LibraryQueue)
        queue.install()  # adds the completed jobs
        if library.other_jobs:
            queue.add_other_jobs(20, "ready")
            assert queue.count_other_jobs() == 20
        numbers = queue.enqueue([NewJob(payload="{}")])
        assert queue.backlog().depth == 1
        assert list(queue.job_ids()) == [(*numbers, False)]


def read_schema(run: FaultyRun, statement: str) -> int:
    with connect(run.cluster.server("primary").direct, "test") as connection:
        ((version,),) = connection.execute(statement).fetchall()
    return int(version)


def programs_of(run: FaultyRun, role: str) -> set[str]:
    """Return the names of River's programs that processes of a role run; the one of a producer is its child."""
    processes = [psutil.Process(process.pid) for process in run.load.running(role)]
    paths = [Path(each.exe()) for process in processes for each in (process, *process.children(recursive=True))]
    return {path.name for path in paths if path.parent == installation_of(find_library("river"))}


def migrate(run: FaultyRun) -> dict[str, object]:
    run.inject("migration", retry_after="100ms")
    run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the migration's end")
    evidence = run.faults()[-1].evidence
    assert evidence["done"]
    return evidence


def test_pg_boss_migrates_while_jobs_are_completed_and_new_workers_run_the_new_version(tmp_path: Path) -> None:
    find_queue("library:pg_boss").require_programs(print)
    with faulty_run(tmp_path, queue="library:pg_boss", queue_options='version = "12.21.0"') as run:
        run.wait_until_jobs_complete()
        assert read_schema(run, OF_PG_BOSS) == 32
        evidence = migrate(run)
        assert (evidence["from"], evidence["to"]) == ("12.21.0", "12.38.0")
        assert read_schema(run, OF_PG_BOSS) == 46
        run.wait_until_jobs_complete()  # by the workers of the older version
        run.inject("deploy", on="workers", surge=1)
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the deployment's end")
        versions = "SELECT DISTINCT version FROM pgboss.instance WHERE stopped_on IS NULL"  # only newer versions write it
        with connect(run.cluster.server("primary").direct, "test") as connection:
            run.wait_until(lambda: connection.execute(versions).fetchall() == [("12.38.0",)], "the new workers")
        run.wait_until_jobs_complete()


def test_a_migration_that_fails_is_repeated_until_it_succeeds(tmp_path: Path) -> None:
    find_queue("library:pg_boss").require_programs(print)
    options = 'version = "12.21.0"\nupgrade_to = "12.22.0"'
    with faulty_run(tmp_path, queue="library:pg_boss", queue_options=options) as run:
        run.wait_until_jobs_complete()
        with connect(run.cluster.server("primary").direct, "test") as connection:
            connection.execute("CREATE TABLE pgboss.obstacle AS SELECT 1")
            connection.execute("CREATE INDEX job_common_i9 ON pgboss.obstacle ((1))")  # the name of an index of the migration
            run.inject("migration", retry_after="100ms")
            log = run.folder.logs / "migration-1.log"
            run.wait_until(lambda: log.read_text().count(DUPLICATE_TABLE) >= 2, "two failed attempts")
            assert run.faults()[-1].verified_gone_ns is None
            assert read_schema(run, OF_PG_BOSS) == 32
            run.wait_until_jobs_complete()
            connection.execute("DROP TABLE pgboss.obstacle")
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the migration's end")
        evidence = run.faults()[-1].evidence
        assert evidence["done"]
        assert evidence["attempts"] == evidence["failed"] + 1
        assert evidence["first_failure"] == f'{DUPLICATE_TABLE} relation "job_common_i9" already exists'
        assert read_schema(run, OF_PG_BOSS) == 33


def test_workers_of_graphile_worker_end_when_a_breaking_migration_is_announced(tmp_path: Path) -> None:
    find_queue("library:graphile_worker").require_programs(print)
    with faulty_run(tmp_path, queue="library:graphile_worker", queue_options='version = "0.16.6"') as run:
        run.wait_until_jobs_complete()
        assert read_schema(run, OF_GRAPHILE_WORKER) == 18
        old = run.load.running("worker")
        migrate(run)
        assert read_schema(run, OF_GRAPHILE_WORKER) == 20
        run.wait_until(lambda: {process.poll() for process in old} == {BREAKING}, "the end of the old workers")
        since_ns = time.time_ns()
        for process in old:
            run.load.replace(process)
        run.wait_until(lambda: run.events(Event.COMPLETED, since_ns), "a completion by a new worker")


def test_procrastinate_migrates_before_and_after_the_deployment_of_the_newer_version(tmp_path: Path) -> None:
    find_queue("library:procrastinate").require_programs(print)
    options = 'version = "3.0.2"\nupgrade_to = "3.1.0"'
    with faulty_run(tmp_path, queue="library:procrastinate", queue_options=options) as run:
        run.wait_until_jobs_complete()
        assert read_schema(run, OF_PROCRASTINATE) == 1
        old = run.load.running("worker")
        # A claim that waited for the migration would fail, and end its worker: docs/results/reports-limits-and-clocks.md.
        for process in old:
            process.ask_to_stop()
        run.wait_until(lambda: None not in {process.poll() for process in old}, "the end of the old workers")
        evidence = migrate(run)
        assert (evidence["from"], evidence["to"]) == ("3.0.2", "3.1.0")
        assert read_schema(run, OF_PROCRASTINATE) == 2
        for process in old:
            run.load.replace(process)
        of_newer = "SELECT count(*) FROM procrastinate_workers"  # older versions do not register
        run.wait_until(lambda: read_schema(run, of_newer) == len(old), "the new workers")
        migrate(run)
        assert read_schema(run, OF_PROCRASTINATE) == 1
        run.wait_until_jobs_complete()


def test_producers_of_an_older_procrastinate_go_on_after_both_parts_of_a_migration(tmp_path: Path) -> None:
    find_queue("library:procrastinate").require_programs(print)
    added = "SELECT count(*) FROM pg_proc WHERE proname = 'procrastinate_retry_job_v2'"
    changed = "SELECT count(*) FROM pg_proc WHERE proname = 'procrastinate_trigger_function_status_events_update_v1' AND prosrc ~ 'retried'"
    with faulty_run(tmp_path, queue="library:procrastinate", queue_options='version = "3.3.0"') as run:
        run.wait_until_jobs_complete()
        assert (read_schema(run, added), read_schema(run, changed)) == (0, 0)
        assert migrate(run)["to"] == "3.10.0"
        assert (read_schema(run, added), read_schema(run, changed)) == (1, 0)
        run.inject("deploy", on="workers", surge=1)
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the deployment's end")
        migrate(run)
        assert (read_schema(run, added), read_schema(run, changed)) == (1, 1)
        run.wait_until_jobs_complete()


def test_pgqueuer_migrates_while_jobs_are_completed_and_new_workers_run_the_new_version(tmp_path: Path) -> None:
    find_queue("library:pgqueuer").require_programs(print)
    of_newer = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'stallbench:worker-%' AND query LIKE '%LIMIT 1%'"
    )
    with faulty_run(tmp_path, queue="library:pgqueuer", queue_options='version = "1.0.0"') as run:
        run.wait_until_jobs_complete()
        assert read_schema(run, OF_PGQUEUER) == 0
        evidence = migrate(run)
        assert (evidence["from"], evidence["to"]) == ("1.0.0", "1.6.0")
        assert read_schema(run, OF_PGQUEUER) == 1
        run.wait_until_jobs_complete()  # by the workers of the older version, or those of them that still run
        run.inject("deploy", on="workers", surge=1)
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the deployment's end")
        run.wait_until(lambda: read_schema(run, of_newer), "the look for due jobs, which only the newer version ends by LIMIT 1")
        run.wait_until_jobs_complete()


@pytest.mark.parametrize(("version", "before"), [("0.11.0", 17), ("0.12.0", 19)])
def test_django_migrates_and_new_workers_take_what_was_enqueued_before(tmp_path: Path, version: str, before: int) -> None:
    find_queue("library:django_tasks_db").require_programs(print)
    ready = "SELECT count(*) FROM django_tasks_database_dbtaskresult WHERE status = 'READY'"
    options = f'version = "{version}"\ninterval = 0.05'
    with faulty_run(tmp_path, queue="library:django_tasks_db", queue_options=options) as run:
        run.wait_until_jobs_complete()
        assert read_schema(run, OF_DJANGO_TASKS) == before
        old = run.load.running("worker")
        for process in old:
            process.ask_to_stop()
        run.wait_until(lambda: None not in {process.poll() for process in old}, "the end of the old workers")
        run.wait_until(lambda: read_schema(run, ready), "tasks of the older version")
        evidence = migrate(run)
        assert (evidence["from"], evidence["to"]) == (version, "0.13.0")
        assert read_schema(run, OF_DJANGO_TASKS) == 21
        for process in old:
            run.load.replace(process)
        since_ns = time.time_ns()
        run.wait_until(lambda: run.events(Event.COMPLETED, since_ns), "a completion by a new worker")


def test_a_migration_that_has_succeeded_when_the_run_ends_is_recorded_as_done(tmp_path: Path) -> None:
    find_queue("library:pgqueuer").require_programs(print)
    with faulty_run(tmp_path, queue="library:pgqueuer", queue_options='version = "1.0.0"') as run:
        run.wait_until_jobs_complete()
        run.inject("migration")
        (migration,) = (child for child in psutil.Process().children() if "migrate" in child.cmdline())
        wait_for(
            lambda: migration.status() == psutil.STATUS_ZOMBIE,
            "the end of the migration, which the fault has not seen yet",
            PATIENCE_S,
        )
        evidence = run.end_faults().evidence
        assert (evidence["done"], evidence["attempts"]) == (True, 1)


def test_river_migrates_in_a_transaction_for_each_migration_and_goes_on_after_a_failed_one(tmp_path: Path) -> None:
    find_queue("library:river").require_programs(print)
    with faulty_run(tmp_path, queue="library:river", queue_options='version = "0.11.4"') as run:
        run.wait_until_jobs_complete()
        assert read_schema(run, OF_RIVER) == 5
        with connect(run.cluster.server("primary").direct, "test") as connection:
            connection.execute("CREATE TABLE river_notification AS SELECT 1")  # the name of a table of migration 7
            run.inject("migration", retry_after="100ms")
            log = run.folder.logs / "migration-1.log"
            run.wait_until(lambda: log.read_text().count(DUPLICATE_TABLE) >= 2, "two failed attempts")
            assert read_schema(run, OF_RIVER) == 6
            run.wait_until_jobs_complete()
            connection.execute("DROP TABLE river_notification")
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the migration's end")
        evidence = run.faults()[-1].evidence
        assert (evidence["from"], evidence["to"]) == ("0.11.4", "0.51.1")
        assert str(evidence["first_failure"]).startswith(f"{DUPLICATE_TABLE} error applying version 007 [UP]")
        assert read_schema(run, OF_RIVER) == 8
        run.wait_until_jobs_complete()


def test_a_deployment_replaces_the_program_of_the_earlier_river(tmp_path: Path) -> None:
    find_queue("library:river").require_programs(print)
    with faulty_run(tmp_path, queue="library:river", queue_options='version = "0.39.0"') as run:
        run.wait_until_jobs_complete()
        assert read_schema(run, OF_RIVER) == 6
        assert programs_of(run, "worker") == programs_of(run, "producer") == {"earlier-0.39.0"}
        for process in run.load.running("worker"):  # a list of processes may show the environment
            assert not any("password" in value for value in psutil.Process(process.pid).environ().values())
        migrate(run)
        assert read_schema(run, OF_RIVER) == 8
        run.wait_until_jobs_complete()  # by the workers of the earlier version
        run.inject("deploy", on="workers", surge=1)
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the deployment's end")
        assert programs_of(run, "worker") == {"adapter"}
        assert programs_of(run, "producer") == {"earlier-0.39.0"}
        run.wait_until_jobs_complete()
