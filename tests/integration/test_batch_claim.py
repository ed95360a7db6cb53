"""What is special about `batch_claim`: whether a claim and the scheduler deadlock; test_queues.py tests what every queue must do."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from stallbench.processes.queue_client import close_queue, open_queue
from stallbench.queues import NewJob, Queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

JOBS = 2000
ROUNDS = 15


def count_deadlocks(endpoint: Endpoint, **options: object) -> int:
    """Let the scheduler update all waiting jobs while a worker claims batches of them; returns how many statements ended in a deadlock."""
    worker, scheduler = (opened(endpoint, **options) for _ in range(2))
    worker.install()
    worker.enqueue([NewJob(payload="{}") for _ in range(JOBS)])
    deadlocks: list[psycopg.Error] = []
    done = threading.Event()

    def schedule() -> None:
        try:
            for _ in range(ROUNDS):
                collect(scheduler, scheduler.schedule, deadlocks)
                if deadlocks:
                    break
        finally:
            done.set()

    thread = threading.Thread(target=schedule)
    thread.start()
    while not done.is_set():
        collect(worker, lambda: [worker.fail(claim, "again") for claim in worker.claim()], deadlocks)
    thread.join()
    for queue in (worker, scheduler):
        close_queue(queue, "postgres")
    return len(deadlocks)


def opened(endpoint: Endpoint, **options: object) -> Queue[Any]:
    queue = open_queue("batch_claim", {"batch": 20, **options}, endpoint, "test")
    queue.connection.execute("SET deadlock_timeout = '50ms'")
    return queue


def collect(queue: Queue[Any], operate: Any, deadlocks: list[psycopg.Error]) -> None:
    try:
        operate()
    except psycopg.errors.DeadlockDetected as error:
        deadlocks.append(error)
        queue.recover(error)


def test_a_batch_claim_and_an_update_of_all_waiting_jobs_deadlock(empty_on: EmptyOn) -> None:
    assert count_deadlocks(empty_on("postgres"), lock="wait") > 0


@pytest.mark.parametrize("lock", ["skip_locked", "by_id"])
def test_they_do_not_if_one_waits_for_nobody_or_both_have_one_order(empty_on: EmptyOn, lock: str) -> None:
    assert count_deadlocks(empty_on("postgres"), lock=lock) == 0


def test_the_jobs_of_a_batch_that_were_not_begun_are_returned(empty_on: EmptyOn) -> None:
    queue = opened(empty_on("postgres"))
    queue.install()
    ids = queue.enqueue([NewJob(payload="{}") for _ in range(3)])
    (claim,) = queue.claim()
    assert queue.depth() == 0
    queue.deregister()
    assert queue.depth() == 2
    assert dict(queue.job_ids()) == {job_id: job_id == claim.job_id for job_id in ids}
    close_queue(queue, "postgres")
