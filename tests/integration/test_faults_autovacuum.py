"""Autovacuum without a worker for the queue, on a real server: its effect, what ends it, and what helps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.errors import NotCarriedOutError
from stallbench.observe.diagnostic import Finding
from stallbench.queues.queue_client import opened_queue
from tests.integration.faulty_run import FaultyRun, faulty_run
from tests.integration.observed import look_at
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

_TABLES = "SELECT count(*) FROM pg_class WHERE relname LIKE 'stallbench_autovacuum_starvation_%'"
_AT_WORK = "SELECT count(*) FROM pg_stat_progress_vacuum JOIN pg_class ON oid = relid WHERE relname <> 'skip_locked_jobs'"
_VACUUMS = (
    "SELECT pg_stat_get_autovacuum_count('skip_locked_jobs'::regclass), pg_stat_get_vacuum_count('skip_locked_jobs'::regclass)"
)
_DEAD = "SELECT pg_stat_get_dead_tuples('skip_locked_jobs'::regclass)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRun]:
    """One run with one autovacuum worker for all tests of this file; each puts it right again."""
    settings = '{ autovacuum_naptime = "1s", autovacuum_max_workers = 1 }'
    with faulty_run(tmp_path_factory.mktemp("autovacuum"), workers=1, settings=settings) as running:
        yield running


def ask(run: FaultyRun, question: str) -> tuple[int, ...]:
    with connect(run.cluster.server("primary").direct, "test") as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return row


def find_busy_worker(run: FaultyRun) -> Finding | None:
    """Return what `stallbench observe` says of it; none in the moment between two tables."""
    findings = look_at(run.cluster.server("primary").direct).findings
    return next((one for one in findings if one.sentence.startswith("The only autovacuum worker is busy")), None)


def test_the_queue_s_table_waits_until_the_workers_are_free_again(run: FaultyRun) -> None:
    run.wait_until(lambda: ask(run, _VACUUMS)[0] > 0, "autovacuum at the queue's table")
    record = run.inject("autovacuum_starvation", tables=2)
    assert len(record.evidence["workers"]) == 1, "there is no other worker"
    before = ask(run, _VACUUMS)
    run.wait_until(lambda: ask(run, _DEAD)[0] > 300, "dead rows")
    assert ask(run, _VACUUMS) == before
    observed = wait_for(lambda: find_busy_worker(run), "the busy worker in an observation")
    assert "due for a vacuum: " in observed.sentence
    assert "skip_locked_jobs" in observed.sentence
    record = run.end_faults()
    assert record.active_to_end is True, record.why_ended
    assert ask(run, _TABLES) == (0,)
    run.wait_until(lambda: ask(run, _AT_WORK) == (0,), "a worker that is free")  # it may have gone on to a catalogue
    run.wait_until(lambda: ask(run, _VACUUMS)[0] > before[0], "autovacuum at the queue's table")


def test_a_vacuum_by_the_queue_s_own_process_needs_no_worker(run: FaultyRun) -> None:
    run.inject("autovacuum_starvation", tables=1)
    before = ask(run, _VACUUMS)
    with opened_queue("skip_locked", {"vacuum_every": 7}, run.cluster.server("primary").direct, "vacuum") as queue:
        assert queue.has_scheduler(queue.options)
        assert queue.schedule() == 7
    run.wait_until(lambda: ask(run, _VACUUMS)[1] == before[1] + 1, "a vacuum")
    assert ask(run, _VACUUMS)[0] == before[0]
    run.end_faults()


def test_a_dropped_table_ends_the_run(run: FaultyRun) -> None:
    run.inject("autovacuum_starvation", tables=1)
    with connect(run.cluster.server("primary").direct, "test") as connection:
        connection.execute("SET client_min_messages = warning")
        (name,) = ask(run, "SELECT relname FROM pg_class WHERE relname LIKE 'stallbench_autovacuum_starvation_%'")
        connection.execute(f"DROP TABLE {name}")
    with pytest.raises(NotCarriedOutError, match=r"could not be kept up"):
        run.go_on_for(60)
    run.injections.undo_all()


def test_a_worker_that_claims_seldom_is_not_waited_for(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1) as run:
        with pytest.raises(NotCarriedOutError, match=r"autovacuum_naptime is 60 s.* expected at most 10 s"):
            run.inject("autovacuum_starvation")
        run.injections.undo_all()
        assert ask(run, _TABLES) == (0,)
