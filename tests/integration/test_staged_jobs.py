"""What is special about `staged_jobs`: what one conflict between scheduled jobs does to all others; test_queues.py tests what every queue must do."""

from __future__ import annotations

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
