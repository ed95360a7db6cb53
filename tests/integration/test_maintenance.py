"""Maintenance on real servers: each kind does its task, reports it, and affects no other session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stallbench import PROJECT
from stallbench.engines import driver_of
from stallbench.injection.maintenance import find_maintenance_kinds
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

_KIND = re.compile(r'^    kind = "(\w+)"$', re.MULTILINE)
_ENDED = re.compile(r"ended session \d+ \((?P<name>[^,]*), .*\), its transaction (?P<age_s>[\d.]+) s old")


def actions(run: FaultyRun) -> list[str]:
    return [action.what for action in run.maintenance().actions]


def connect(run: FaultyRun, name: str) -> Any:
    endpoint = run.cluster.server("primary").direct
    return driver_of(endpoint.engine).connect(endpoint, name)


def test_every_kind_has_a_summary_a_source_and_described_options() -> None:
    declared = {
        kind
        for file in (PROJECT / "stallbench" / "injection" / "maintenance").glob("*.py")
        for kind in _KIND.findall(file.read_text())
    }
    assert "watchdog" in declared
    assert list(find_maintenance_kinds()) == sorted(declared)
    for kind in find_maintenance_kinds().values():
        assert kind.summary
        assert kind.source
        assert all(field.description for field in kind.options_type.model_fields.values())


@pytest.mark.parametrize("engine", ["postgres", pytest.param("mariadb", marks=pytest.mark.long)])
def test_the_watchdog_ends_an_old_transaction_and_nothing_else(tmp_path: Path, engine: str) -> None:
    queue = "skip_locked" if engine == "postgres" else "laravel"
    with faulty_run(tmp_path, workers=1, engine=engine, queue=queue) as run:
        driver = driver_of(engine)
        holder, idle = connect(run, "holder"), connect(run, "idle")
        run.start_maintenance(kind="watchdog", every="200ms", older_than="3s")
        with holder.cursor() as cursor:
            cursor.execute("CREATE TABLE held (n integer)")
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO held VALUES (1)")

        def ended() -> dict[str, float]:
            """By its name, how old the transaction of each ended session was."""
            matches = [_ENDED.fullmatch(what) for what in actions(run)]
            return {match["name"].removeprefix("stallbench:"): float(match["age_s"]) for match in matches if match}

        run.wait_until(lambda: "holder" in ended(), "the end of the holder's session")
        with pytest.raises(driver.errors), holder.cursor() as cursor:
            cursor.execute("SELECT 1")
        with idle.cursor() as cursor:
            cursor.execute("SELECT 1")
        run.wait_until_jobs_complete()
        run.wait_until(lambda: (run.maintenance().iterations or 0) > 1, "another iteration")
        record = run.end_maintenance()
        # A worker that the machine delays for so long within its transaction is also ended, and rightly.
        assert min(ended().values()) >= 3
        assert record.errors == ()
        assert record.active_to_end is True
        assert record.verified_gone_ns is not None
        assert all(process.poll() is None for process in run.load.running("worker"))
        driver.close(idle)


def test_reindexing_removes_dead_rows_from_the_index_that_vacuum_must_not_remove(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, queue="que") as run:
        holder, watch = connect(run, "holder"), connect(run, "watch")
        holder.execute("CREATE TABLE held (n integer)")
        holder.execute("BEGIN")
        holder.execute("INSERT INTO held VALUES (1)")
        watch.execute("INSERT INTO que_jobs (job_class, priority) SELECT 'Stallbench', 200 FROM generate_series(1, 20000)")
        watch.execute("DELETE FROM que_jobs WHERE priority = 200")
        watch.execute("CREATE INDEX que_jobs_pkey_ccnew ON que_jobs (job_id)")
        watch.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'que_jobs_pkey_ccnew'::regclass")

        def index_bytes() -> int:
            return int(watch.execute("SELECT pg_relation_size('que_jobs_pkey')").fetchone()[0])

        before = index_bytes()
        run.start_maintenance(kind="reindex", every="1h")
        run.wait_until(lambda: "reindexed que_jobs" in actions(run), "a rebuilt index")
        assert index_bytes() < before / 4
        assert actions(run)[0].startswith("removed que_jobs_pkey_ccnew")
        run.wait_until_jobs_complete()
        run.end_maintenance()
        holder.close()
        watch.close()


def test_rows_are_deleted_in_batches_and_no_job_that_is_not_done(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, queue="status_column", queue_options="retained = 250") as run:
        watch = connect(run, "watch")
        run.start_maintenance(kind="delete_rows", where="status = 'done' AND enqueued_at < now()", batch=100, every="1h")
        run.wait_until(lambda: actions(run), "the deletion")
        done = re.fullmatch(r"deleted (?P<rows>\d+) rows of status_column_jobs in (?P<batches>\d+) batches", actions(run)[0])
        assert done
        assert int(done["rows"]) >= 250
        assert int(done["batches"]) >= 3
        assert watch.execute("SELECT count(*) FROM status_column_jobs WHERE job_id <= 250").fetchone() == (0,)
        run.wait_until_jobs_complete()
        assert run.end_maintenance().errors == ()
        watch.close()


def test_partitions_are_dropped_whose_jobs_are_all_done_and_the_newest_is_kept(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, queue="status_column", queue_options="retained = 1050\npartition = 100") as run:
        watch = connect(run, "watch")
        watch.execute("UPDATE status_column_jobs SET status = 'ready', run_at = 'infinity' WHERE job_id = 150")
        run.start_maintenance(kind="drop_partitions", where="status = 'done'", every="1h")
        run.wait_until(lambda: run.maintenance().iterations, "an iteration")
        dropped = {what.removeprefix("dropped status_column_jobs_") for what in actions(run)}
        assert dropped >= {"1", *(f"{n}01" for n in range(2, 10))}
        assert "101" not in dropped
        assert (
            max(int(number) for number in dropped) < watch.execute("SELECT max(job_id) FROM status_column_jobs").fetchone()[0] - 1
        )
        assert watch.execute("SELECT count(*) FROM status_column_jobs WHERE job_id <= 100").fetchone() == (0,)
        assert watch.execute("SELECT count(*) FROM status_column_jobs WHERE job_id BETWEEN 101 AND 200").fetchone() == (100,)
        watch.execute("DELETE FROM status_column_jobs WHERE job_id = 150")
        assert run.end_maintenance().errors == ()
        watch.close()


def test_maintenance_of_a_phase_runs_in_that_phase_only(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, queue="status_column", queue_options="retained = 10") as run:
        run.start_maintenance(kind="delete_rows", where="status = 'done'", phase="only")
        assert [record.category for record in run.injections.records()] == []
        run.inject("latency", latency="1ms")
        run.wait_until(lambda: actions(run), "an iteration")
        run.end_faults()
        record = run.maintenance()
        assert (record.phase, record.active_to_end) == ("only", True)
        assert [process.exit_code for process in run.processes.of_role("maintenance")] == [0]


def test_it_reports_an_error_and_continues_after_the_server_was_unavailable(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1) as run:
        run.start_maintenance(kind="reindex", every="100ms")
        run.wait_until(lambda: actions(run), "an iteration")
        run.inject("crash", down_for="1s")
        run.wait_until(lambda: run.maintenance().errors, "an iteration that failed")
        run.end_faults()
        done = len(actions(run))
        run.wait_until(lambda: len(actions(run)) > done + 1, "an iteration after that")
        run.end_maintenance()
        assert [process.exit_code for process in run.processes.of_role("maintenance")] == [0]


def test_analyzing_tells_the_planner_of_new_jobs(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, queue="shared_table") as run:
        run.inject("other_jobs", count=1000)
        run.start_maintenance(kind="analyze", every="100ms")
        run.wait_until(lambda: "analyzed shared_jobs" in actions(run), "an iteration")
        watch = connect(run, "watch")
        statement = "SELECT reltuples FROM pg_class WHERE relname = 'shared_jobs'"
        assert float(watch.execute(statement).fetchone()[0]) >= 1000
        watch.close()
        run.end_maintenance()
