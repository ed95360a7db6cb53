"""Statements that lock the jobs table, under load: which sessions wait, and that nothing is left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from stallbench.engines import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.side_session import SideSession
from stallbench.queues import find_queues
from stallbench.records.events import Event
from stallbench.setup.components import MissingComponentError
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

ON = {
    "postgres": ("skip_locked", "{}"),
    "mariadb": ("laravel", '{ innodb_buffer_pool_size = "32M" }'),
}
TRIES = 10
BLOCKED = "SELECT 1 WHERE cardinality(pg_blocking_pids({pid})) > 0"
COLUMNS = "SELECT column_name FROM information_schema.columns WHERE column_name LIKE 'of_alter_table%'"
SESSIONS = {
    "postgres": "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'stallbench:alter_table%'",
    "mariadb": "SELECT user FROM information_schema.processlist WHERE user LIKE 'alter_table%'",
}


@pytest.fixture(scope="module", params=ON)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRun]:
    """One run on each engine for all tests of this file; each puts it right again."""
    queue, settings = ON[request.param]
    with ExitStack() as stack:
        try:
            path = tmp_path_factory.mktemp(request.param)
            yield stack.enter_context(faulty_run(path, engine=request.param, queue=queue, workers=1, settings=settings))
        except MissingComponentError as error:
            pytest.skip(str(error))


def ask(run: FaultyRun, statement: str) -> list[str]:
    """Return the first column of what a statement finds on the primary."""
    endpoint = run.cluster.server("primary").direct
    with driver_of(endpoint.engine).connect(endpoint, "test") as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()] if cursor.description else []


def see_that_nothing_is_left(run: FaultyRun) -> None:
    """Neither a column nor a session is, and the queue goes on."""
    assert ask(run, COLUMNS) == []
    run.wait_until(lambda: not ask(run, SESSIONS[run.scenario.database.engine]), "the end of its sessions")
    run.wait_until_jobs_complete()


def is_over(run: FaultyRun) -> bool:
    """Whether the last fault has ended by itself."""
    return run.faults()[-1].verified_gone_ns is not None


def test_the_queue_waits_behind_the_statement_until_the_reader_ends(run: FaultyRun) -> None:
    run.wait_until_jobs_complete()
    run.inject("alter_table", reader_for="4s")
    waits_ns = time.time_ns()
    run.wait_until(lambda: is_over(run), "the column", within_s=60)
    record = run.faults()[-1]
    assert record.active_to_end is True
    assert record.evidence["done"] is True
    assert record.evidence["reader_held"] is True
    assert record.evidence["attempts"] == 1
    assert record.evidence["took_s"] >= 4
    assert record.evidence["most_waiting_behind_it"] >= 1
    # Whatever move comes next waits: the claim of a worker without a job, else the completion of the one in hand.
    moves = [row for event in (Event.CLAIMED, Event.COMPLETED, Event.EMPTY) for row in run.events(event, waits_ns)]
    # It may come late, and the statement too.
    assert any(int(row["duration_ns"]) > 1e9 for row in moves)
    see_that_nothing_is_left(run)


def test_with_a_lock_timeout_it_gives_up_and_tries_again(run: FaultyRun) -> None:
    run.inject("alter_table", reader_for="6s", lock_timeout="1s", retry_after="1s")
    run.wait_until(lambda: is_over(run), "the column", within_s=60)
    record = run.faults()[-1]
    assert record.evidence["done"] is True
    assert record.evidence["attempts"] >= 2
    claimed = [int(row["t_ns"]) for row in run.events(Event.CLAIMED, record.verified_ns or 0)]
    assert any(t_ns < (record.end_ns or 0) - 1e9 for t_ns in claimed)  # between two attempts, while the reader was still there
    see_that_nothing_is_left(run)


def test_its_end_cancels_the_statement(run: FaultyRun) -> None:
    run.inject("alter_table", reader_for="1h")
    record = run.end_faults()
    assert record.evidence["done"] is False
    see_that_nothing_is_left(run)


def test_it_needs_a_table(run: FaultyRun) -> None:
    (table,) = find_queues()[run.scenario.queue.kind].tables
    ask(run, f"ALTER TABLE {table} RENAME TO moved_away")
    try:
        with pytest.raises(NotCarriedOutError, match=table):
            run.inject("alter_table")
        run.injections.undo_all()
    finally:
        ask(run, f"ALTER TABLE moved_away RENAME TO {table}")
    see_that_nothing_is_left(run)


REWRITES: list[tuple[str, dict[str, Any]]] = [("vacuum_full", {}), ("reindex", {}), ("reindex", {"concurrently": True})]


@pytest.mark.parametrize(("kind", "options"), REWRITES)
def test_a_rewrite_makes_the_table_smaller_and_is_over_by_itself(run: FaultyRun, kind: str, options: dict[str, Any]) -> None:
    if run.scenario.database.engine != "postgres":
        pytest.skip("a rewrite is PostgreSQL's")
    (table,) = find_queues()[run.scenario.queue.kind].tables
    (path,) = ask(run, f"SELECT string_agg(pg_relation_filenode(oid)::text, ' ' ORDER BY oid) FROM {FILES.format(table)}")
    run.inject(kind, **options)
    run.wait_until(lambda: is_over(run), "its end", within_s=60)
    record = run.faults()[-1]
    assert record.active_to_end is True
    assert record.evidence["done"] is True
    assert record.evidence["bytes_before"] > 0
    (path_after,) = ask(run, f"SELECT string_agg(pg_relation_filenode(oid)::text, ' ' ORDER BY oid) FROM {FILES.format(table)}")
    assert path_after != path, "they are other files"
    see_that_nothing_is_left(run)


@pytest.mark.parametrize("suffix", ["ccnew", "ccold", "ccold1"])
def test_an_invalid_index_of_a_concurrent_reindex_that_was_cancelled_is_removed(run: FaultyRun, suffix: str) -> None:
    """Before the swap PostgreSQL leaves the new index, after it the old one, which every write would still have to maintain."""
    if run.scenario.database.engine != "postgres":
        pytest.skip("a rewrite is PostgreSQL's")
    (table,) = find_queues()[run.scenario.queue.kind].tables
    index = f"{table}_of_test_{suffix}"
    ask(run, f"CREATE INDEX {index} ON {table} (job_id)")
    ask(run, f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{index}'::regclass")
    run.inject("reindex", concurrently=True)
    run.wait_until(lambda: is_over(run), "its end", within_s=60)
    assert ask(run, f"SELECT relname FROM pg_class WHERE relname = '{index}'") == []
    see_that_nothing_is_left(run)


def test_a_rewrite_that_the_server_ends_to_break_a_deadlock_begins_again(run: FaultyRun) -> None:
    """As a worker has it that locks a job's row, and deletes it when the work is done."""
    if run.scenario.database.engine != "postgres":
        pytest.skip("a rewrite is PostgreSQL's")
    (table,) = find_queues()[run.scenario.queue.kind].tables
    endpoint = run.cluster.server("primary").direct
    worker, watch = SideSession(endpoint, "worker"), SideSession(endpoint, "watch")
    try:
        # The server ends the session that has waited for a second first when the cycle closes; if the machine is paused before,
        # that is the worker.
        for _ in range(TRIES):
            worker.run("BEGIN")
            worker.run(f"SELECT 1 FROM {table} WHERE job_id = 0 FOR UPDATE")
            pid = run.inject("reindex").evidence["pid"]
            run.wait_until(partial(watch.run, BLOCKED.format(pid=pid)), "its wait for the worker")
            worker.begin(f"DELETE FROM {table} WHERE job_id = 0")
            run.wait_until(lambda: not worker.is_running, "the end of one of them")
            worker_was_ended = worker.was_deadlock_victim()
            worker.run("ROLLBACK")
            run.wait_until(lambda: is_over(run), "its end", within_s=60)
            if not worker_was_ended:
                break
    finally:
        worker.end()
        watch.end()
    evidence = run.end_faults().evidence
    assert evidence["done"] is True
    assert evidence["ended_by_deadlock"] >= 1
    see_that_nothing_is_left(run)


FILES = "(SELECT '{0}'::regclass::oid AS oid UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = '{0}'::regclass) AS files"
