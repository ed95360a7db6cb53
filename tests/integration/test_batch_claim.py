"""What is special about `batch_claim`: whether a claim and the scheduler deadlock; test_queues.py tests what every queue must do."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.queues import NewJob, Queue
from stallbench.queues.queue_client import close_queue, open_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.waiting import PATIENCE_S, wait_for

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


def test_a_claim_of_one_job_holds_the_lock_of_another_job_too(empty_on: EmptyOn) -> None:
    """It waited for a job that another worker has claimed meanwhile. It keeps the lock of this job while it waits for the next one."""
    endpoint = empty_on("postgres")
    queue = opened(endpoint, batch=1)
    queue.install()
    queue.enqueue([NewJob(payload="{}") for _ in range(2)])
    with (
        connect(endpoint, "faster worker") as faster,
        connect(endpoint, "scheduler") as scheduler,
        connect(endpoint, "test") as watch,
    ):
        in_order = faster.execute("SELECT job_id FROM batch_claim_jobs ORDER BY priority, job_id").fetchall()
        first, second = (job_id for (job_id,) in in_order)
        faster.execute("BEGIN")
        faster.execute("UPDATE batch_claim_jobs SET status = 'claimed', claimed_at = now() WHERE job_id = %s", [first])
        scheduler.execute("BEGIN")
        scheduler.execute("SELECT FROM batch_claim_jobs WHERE job_id = %s FOR UPDATE", [second])
        with ThreadPoolExecutor(1) as pool:
            claiming = pool.submit(queue.claim)
            wait_until_blocked_by(faster, watch)
            faster.execute("COMMIT")
            wait_until_blocked_by(scheduler, watch)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                watch.execute("SELECT FROM batch_claim_jobs WHERE job_id = %s FOR UPDATE NOWAIT", [first])
            scheduler.execute("ROLLBACK")
            (claim,) = claiming.result(timeout=PATIENCE_S)
    assert claim.job_id == second
    close_queue(queue, "postgres")


def wait_until_blocked_by(holder: psycopg.Connection[Any], watch: psycopg.Connection[Any]) -> None:
    """Wait until a session waits for a lock of ``holder``."""
    statement = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    wait_for(lambda: watch.execute(statement, [holder.info.backend_pid]).fetchone() != (0,), "a session that waits")
