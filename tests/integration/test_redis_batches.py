"""A table before Redis: both stores together hold every job, and a job that a dying mover leaves in both is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from stallbench.queues import NewJob
from stallbench.queues.queue_client import close_queue, open_queue
from stallbench.queues.redis_batches import RedisBatches
from tests.integration.conftest import EmptyOn
from tests.integration.faulty_run import faulty_run

pytestmark = pytest.mark.integration

JOBS = [NewJob(payload=f'{{"n":{n}}}') for n in range(5)]


class Open:
    """Opens the queue on two empty stores; the first one installs it."""

    def __init__(self, empty_on: EmptyOn) -> None:
        self.endpoint = empty_on("postgres").model_copy(update={"second": empty_on("redis")})
        self.opened: list[RedisBatches] = []

    def __call__(self, **options: object) -> RedisBatches:
        queue = open_queue("redis_batches", options, self.endpoint, f"test-{len(self.opened)}")
        assert isinstance(queue, RedisBatches)
        if not self.opened:
            queue.install()
        self.opened.append(queue)
        return queue


@pytest.fixture
def open_(empty_on: EmptyOn) -> Iterator[Open]:
    opening = Open(empty_on)
    yield opening
    for queue in opening.opened:
        close_queue(queue, "postgres")


def die_at(queue: RedisBatches, move: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the mover's connections end where it would make ``move``, as if it were killed there."""

    def die(*_: Any) -> None:
        close_queue(queue, "postgres")
        raise psycopg.OperationalError("killed")

    execute = queue.execute
    if move == "push":
        monkeypatch.setattr(queue._redis, "push", die)
    else:
        monkeypatch.setattr(queue, "execute", lambda name, *values: die() if name == move else execute(name, *values))


def test_nothing_is_claimed_before_the_mover_came_and_both_stores_count(open_: Open) -> None:
    queue = open_(batch=2)
    ids = list(queue.enqueue(JOBS))
    assert queue.claim() == []
    assert queue.schedule() == 0
    assert queue.depth() == 5
    (claim,) = queue.claim()
    assert claim.job_id == ids[0]
    assert queue.depth() == 4
    assert dict(open_().job_ids()) == {job_id: job_id == ids[0] for job_id in ids}
    assert not queue.is_drained()


def test_the_mover_waits_when_redis_has_enough(open_: Open) -> None:
    queue = open_(batch=2, most_in_redis=3)
    queue.enqueue(JOBS)
    assert [queue.schedule() == 0 for _ in range(3)] == [True, True, False]
    queue.claim()
    assert queue.schedule() == 0


def test_a_mover_that_dies_before_it_commits_leaves_its_batch_in_both(open_: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    other, dying = open_(), open_(batch=2)
    ids = list(other.enqueue(JOBS[:2]))
    die_at(dying, "commit", monkeypatch)
    with pytest.raises(psycopg.OperationalError):
        dying.schedule()
    assert sorted(job_id for job_id, _ in other.job_ids()) == ids
    first = [other.claim()[0] for _ in ids]
    for claim in first:
        other.complete(claim)
    assert sorted(job_id for job_id, _ in other.job_ids()) == ids
    assert other.schedule() == 0
    assert [other.claim()[0].job_id for _ in ids] == [claim.job_id for claim in first]


def test_one_that_deletes_first_and_dies_before_it_pushes_loses_it(open_: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    other, dying = open_(), open_(batch=2, hand_over="delete_first")
    ids = other.enqueue(JOBS)
    die_at(dying, "push", monkeypatch)
    with pytest.raises(psycopg.OperationalError):
        dying.schedule()
    assert sorted(job_id for job_id, _ in other.job_ids()) == list(ids[2:])


def test_without_redis_jobs_stay_in_the_table(open_: Open) -> None:
    queue = open_()
    ids = list(queue.enqueue(JOBS))
    queue.second.config_set("maxmemory", "1")
    with pytest.raises(redis.ResponseError):
        queue.schedule()
    queue.second.config_set("maxmemory", "0")
    close_queue(queue, "postgres")
    other = open_()
    assert dict(other.job_ids()) == dict.fromkeys(ids, False)
    assert other.schedule() == 0
    assert other.claim()[0].job_id == ids[0]


def test_a_mover_that_is_killed_is_replaced_and_the_queue_continues(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="redis_batches") as run:
        run.wait_until_jobs_complete()
        run.inject("kill", on="scheduler")
        run.wait_until(lambda: len(run.processes.of_role("scheduler")) == 2, "another mover")
        run.wait_until_jobs_complete(60)
        assert run.faults()[-1].evidence == {"killed": ["scheduler"]}
