"""What is special about `limited_jobs`: what becomes of the limit when a worker dies, or is taken for dead; test_queues.py has what every queue must do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stallbench.queues import Claim, ClaimExpiredError, NewJob, Queue
from stallbench.queues.queue_client import close_queue, open_queue
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

InstallQueue = Callable[..., Queue[Any]]


@pytest.fixture
def install(empty_on: EmptyOn) -> Iterator[InstallQueue]:
    """Installs the queue with these options and ten jobs of one key, and returns it."""
    opened: list[Queue[Any]] = []

    def install_one(**options: object) -> Queue[Any]:
        queue = open_queue("limited_jobs", {"keys": 1, "expire_after": 1, **options}, empty_on("postgres"), "test")
        opened.append(queue)
        queue.install()
        queue.enqueue([NewJob(payload="{}")] * 10)
        return queue

    yield install_one
    for queue in opened:
        close_queue(queue, "postgres")


def claim_at_once(queue: Queue[Any]) -> list[Claim]:
    return [claim for _ in range(5) for claim in queue.claim()]


def let_expire(queue: Queue[Any]) -> Claim:
    """Claim a job, and let its claim expire."""
    (claim,) = queue.claim()
    time.sleep(1.2)
    return claim


def test_one_job_of_a_key_is_claimed_at_a_time(install: InstallQueue) -> None:
    queue = install()
    for _ in range(3):
        (claim,) = claim_at_once(queue)
        queue.complete(claim)
    (claim,) = claim_at_once(queue)
    queue.fail(claim, "no")
    assert len(claim_at_once(queue)) == 1
    assert {str(each) for each in queue.preconditions.values()} == {"alone:0"}


def test_a_dead_worker_keeps_the_key_if_only_it_may_give_it_back(install: InstallQueue) -> None:
    queue = install(release="worker")
    let_expire(queue)
    assert not claim_at_once(queue)
    assert queue.backlog().depth == 10


def test_a_slow_worker_gives_the_key_back_a_second_time_if_the_rescue_has(install: InstallQueue) -> None:
    queue = install(release="worker_and_rescue")
    slow = let_expire(queue)
    assert len(claim_at_once(queue)) == 1
    with pytest.raises(ClaimExpiredError):
        queue.complete(slow)
    assert len(claim_at_once(queue)) == 1, "beside the one that is claimed"


def test_who_ends_the_claim_gives_the_key_back_once(install: InstallQueue) -> None:
    queue = install(release="claim")
    slow = let_expire(queue)
    assert len(claim_at_once(queue)) == 1
    with pytest.raises(ClaimExpiredError):
        queue.complete(slow)
    assert not claim_at_once(queue)


def test_a_semaphore_that_expires_frees_the_key_of_a_dead_worker(install: InstallQueue) -> None:
    queue = install(release="worker", semaphore_expires=1)
    let_expire(queue)
    assert len(claim_at_once(queue)) == 1
