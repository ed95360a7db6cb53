"""Completed jobs that the bench adds to the table of a library: as the library leaves them, executed by no worker, and deleted as its documentation
says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.queues import find_queue
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue_client import opened_queue
from stallbench.records.events import Event
from tests.integration.faulty_run import FaultyRun, faulty_run
from tests.integration.test_library_retention import count_rows

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

RETAINED = 25_000
"""More than one statement adds, and than one batch of a library deletes."""
BY = {name: definition.deleted_by for name in find_libraries() if (definition := find_library(name).completed_jobs)}
QUICKER = {"oban": "prune_interval = 5.0\nprune_limit = 10_000", "pg_boss": "supervise_interval = 5"}
"""Options with which a library's own workers delete sooner."""
OF_OTHER_COLUMNS = [("django_tasks_db", "0.11.0"), ("pgqueuer", "1.0.0")]
"""Earlier versions whose table differs."""
LONGEST_S = 150
"""River's cleaner searches every 30 s, and the jobs are too young for the first minute."""


@contextmanager
def retaining_run(tmp_path: Path, name: str) -> Iterator[tuple[FaultyRun, LibraryQueue]]:
    """A run on a library whose table has `RETAINED` completed jobs, and the library's queue."""
    kind = f"library:{name}"
    if missing := find_missing_requirement(find_library(name)):
        pytest.skip(missing)
    find_queue(kind).require_programs(print)
    options = f"retained = {RETAINED}\n{QUICKER.get(name, '')}"
    with faulty_run(tmp_path, queue=kind, queue_options=options) as run:
        primary = run.cluster.server("primary").direct
        with opened_queue(kind, run.queue.options, primary, "reader") as queue:
            assert isinstance(queue, LibraryQueue)
            yield run, queue


def count_live(queue: LibraryQueue) -> int:
    """Rows of the library's tables, by the server's statistics."""
    live = "SELECT sum(n_live_tup) FROM pg_stat_user_tables WHERE relid = ANY(%s::regclass[])"
    ((count,),) = queue.connection.execute(live, [list(queue.tables)]).fetchall()
    return int(count)


def count_all(queue: LibraryQueue) -> int:
    """Rows of the library's tables."""
    return sum(count_rows(queue.connection, table) for table in queue.tables)


@pytest.mark.parametrize("name", [name for name, by in BY.items() if by != "workers"])
def test_completed_jobs_stay_and_are_not_executed_until_a_command_deletes_them(tmp_path: Path, name: str) -> None:
    with retaining_run(tmp_path, name) as (run, queue):
        run.wait_until_jobs_complete(50)
        run.load.stop()
        assert queue.count_completed_jobs() == RETAINED
        assert count_live(queue) == pytest.approx(count_all(queue), rel=0.1), "statistics have each added row once"
        assert queue.backlog().depth + len(list(queue.job_ids())) < RETAINED / 10
        enqueued = {row["job_id"] for row in run.events(Event.ENQUEUED)}
        assert {row["job_id"] for row in run.events(Event.CLAIMED)} <= enqueued
        if BY[name] == "command":
            run.start_maintenance(kind="prune", every="1h")
            run.wait_until(lambda: run.maintenance().iterations, "the command's end")
            record = run.end_maintenance()
            assert record.errors == ()
            (action,) = record.actions
            assert action.what.endswith(f"deleted {RETAINED} of {RETAINED} completed jobs of earlier days")
            assert queue.count_completed_jobs() == 0


@pytest.mark.parametrize("name", [name for name, by in BY.items() if by == "workers"])
def test_completed_jobs_are_deleted_by_the_workers_and_not_executed(tmp_path: Path, name: str) -> None:
    with retaining_run(tmp_path, name) as (run, queue):
        run.wait_until(lambda: queue.count_completed_jobs() == 0, "the deletion of the completed jobs", LONGEST_S)
        run.wait_until_jobs_complete(50)
        run.load.stop()
        enqueued = {row["job_id"] for row in run.events(Event.ENQUEUED)}
        assert {row["job_id"] for row in run.events(Event.CLAIMED)} <= enqueued
        assert len(list(queue.job_ids())) < RETAINED / 10


@pytest.mark.parametrize(("name", "version"), [*((name, "") for name in BY), *OF_OTHER_COLUMNS])
def test_an_added_job_has_the_columns_and_the_size_of_one_that_the_library_has_completed(
    tmp_path: Path, name: str, version: str
) -> None:
    kind = f"library:{name}"
    if missing := find_missing_requirement(find_library(name)):
        pytest.skip(missing)
    find_queue(kind).require_programs(print)
    (table, *_) = [each for each in find_library(name).tables if each not in ("pgqueuer", "pgmq.q_stallbench")]
    shape = f"SELECT jsonb_object_agg(key, jsonb_typeof(value)), length(row::text) FROM {table} AS job, to_jsonb(job) AS row, jsonb_each(row)"
    with faulty_run(tmp_path, queue=kind, queue_options=f'version = "{version}"' if version else "") as run:
        run.wait_until_jobs_complete(50)
        run.load.stop()
        with opened_queue(kind, run.queue.options, run.cluster.server("primary").direct, "reader") as queue:
            assert isinstance(queue, LibraryQueue)
            shapes = []
            for _ in range(2):
                done = f"{shape} GROUP BY row ORDER BY length(row::text) DESC LIMIT 1"
                shapes.append(queue.connection.execute(done).fetchone())
                queue.connection.execute(f"TRUNCATE {table} CASCADE")
                queue.add_completed_jobs(1)
    (columns, size), (added_columns, added_size) = shapes
    assert added_columns == columns
    assert added_size == pytest.approx(size, rel=0.2)
