"""What is special about `staged_jobs`: what one conflict between scheduled jobs does to all others; test_queues.py tests what every queue must do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from stallbench.queues import NewJob, Queue, RefusedError
from stallbench.queues.queue_client import close_queue, open_queue
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

InstallQueue = Callable[..., Queue[Any]]
TWICE = NewJob(payload="{}", key="7")
OTHER = NewJob(payload="{}", key="8")


@pytest.fixture
def install(empty_on: EmptyOn) -> Iterator[InstallQueue]:
    """Installs the queue with these options and returns it."""
    opened: list[Queue[Any]] = []

    def install_one(**options: object) -> Queue[Any]:
        queue = open_queue("staged_jobs", options, empty_on("postgres"), "test")
        opened.append(queue)
        queue.install()
        return queue

    yield install_one
    for queue in opened:
        close_queue(queue, "postgres")


def claim_all(queue: Queue[Any]) -> list[int]:
    return [claim.job_id for _ in range(5) for claim in queue.claim()]


def test_one_conflict_in_the_statement_that_stages_all_due_jobs_stops_every_job(install: InstallQueue) -> None:
    queue = install(unique="none", stage="in_one_statement")
    for job in (TWICE, TWICE, OTHER):
        queue.enqueue([job])
    for _ in range(3):
        with pytest.raises(psycopg.errors.UniqueViolation) as raised:
            queue.claim()
        assert queue.recover(raised.value)
    assert queue.backlog().depth == 3


def test_a_stager_that_skips_conflicts_delays_only_the_second_job_with_the_key(install: InstallQueue) -> None:
    queue = install(unique="none", stage="skip_conflicts")
    first, second, other = (queue.enqueue([job])[0] for job in (TWICE, TWICE, OTHER))
    (claim,) = queue.claim()
    assert claim.job_id == first
    assert claim_all(queue) == [other]
    queue.complete(claim)
    assert claim_all(queue) == [second]


def test_a_key_that_is_unique_when_it_is_enqueued_never_reaches_the_stager_twice(install: InstallQueue) -> None:
    queue = install(unique="on_conflict", stage="in_one_statement")
    first, other = (queue.enqueue([job])[0] for job in (TWICE, OTHER))
    with pytest.raises(RefusedError):
        queue.enqueue([TWICE])
    assert claim_all(queue) == [first, other]


def test_a_job_that_is_not_due_is_not_staged(install: InstallQueue) -> None:
    queue = install(delay=60)
    queue.enqueue([OTHER])
    assert not claim_all(queue)
    assert queue.backlog().depth == 0
    assert [claimed for _, claimed in queue.job_ids()] == [False]


def test_only_one_worker_stages_at_a_time_and_the_others_do_not_wait(install: InstallQueue) -> None:
    queue = install(unique="none")
    (job_id,) = queue.enqueue([OTHER])
    with psycopg.connect(queue.connection.info.dsn, password=queue.connection.info.password) as stager:
        stager.execute("SELECT pg_advisory_xact_lock(hashtextextended('staged_jobs', 0))")
        assert not claim_all(queue)
    assert claim_all(queue) == [job_id]


def test_a_time_limit_that_all_due_jobs_exceed_stops_the_stager_unless_it_takes_a_batch(install: InstallQueue) -> None:
    due = [NewJob(payload="{}")] * 20_000
    queue = install(unique="none", unique_when_ready=False, stage="in_one_statement", stage_timeout=0.005)
    queue.load(due)
    for _ in range(2):
        with pytest.raises(psycopg.errors.QueryCanceled) as raised:
            queue.claim()
        assert queue.recover(raised.value)
    batches = install(unique="none", unique_when_ready=False, stage="in_batches", stage_batch=10, stage_timeout=5)
    first = batches.load(due)[0]
    assert claim_all(batches) == [*range(first, first + 5)]


def test_a_job_without_a_key_says_when_it_is_due(install: InstallQueue) -> None:
    queue = install(unique="none", delay=60)
    (without,) = queue.enqueue([NewJob(payload="{}")])
    (due,) = queue.preconditions.values()
    assert due.kind == "due"
    assert 0 < int(due.subject) / 1e9 - time.time() <= 60
    (with_key,) = queue.enqueue([OTHER])
    assert {str(each) for each in queue.preconditions.values()} == {"key:8"}
    assert without != with_key


def test_jobs_that_are_put_off_are_due_at_the_same_moment(install: InstallQueue) -> None:
    queue = install(unique="none", delay=10, due_every=3600)
    for _ in range(2):
        queue.enqueue([OTHER])
    due = queue.connection.execute("SELECT DISTINCT extract(epoch FROM run_at)::bigint % 3600 FROM status_column_jobs").fetchall()
    assert due == [(0,)]
    queue = install(unique="none", delay=10, due_every=3600, due_jitter=600)
    queue.load([OTHER] * 50)
    spread = queue.connection.execute("SELECT max(run_at) - min(run_at) > interval '1 minute' FROM status_column_jobs").fetchone()
    assert spread == (True,)
