"""What every queue must do on every engine that it runs on. A queue that is added to `stallbench.queues` is tested
by being there; where queues promise different things, its own attributes say which of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from stallbench.engines import Engine
from stallbench.processes.queue_client import close_queue, open_queue
from stallbench.queues import Claim, NewJob, Queue, find_queues
from stallbench.queues.queue import OptionRole
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

OpenQueue = Callable[..., Queue[Any]]
"""Opens the queue under test on a new connection at each call, with the options that it is given."""
JOBS = [NewJob(payload=f'{{"n":{n}}}') for n in range(5)]

WITH_OPTIONS: dict[str, list[dict[str, object]]] = {
    "que": [{"claim_after_last": True}],
    "redis_batches": [{"batch": 2, "hand_over": "delete_first"}],
    "status_column": [{"finish": "delete"}, {"finish": "delete", "index": "none", "fillfactor": 50}],
}
"""Options that change how a queue moves a job, but nothing of what it must do."""


def queues(are: Callable[[type[Queue[Any]]], bool] = lambda _: True) -> list[Any]:
    """Return each queue that is so, once for each engine that it runs on, and again with each of `WITH_OPTIONS`."""
    return [
        pytest.param((kind, engine, options), id="-".join([kind, engine, *(f"{key}={value}" for key, value in options.items())]))
        for kind, queue in find_queues().items()
        for engine in sorted(queue.engines)
        for options in ({}, *WITH_OPTIONS.get(kind, []))
        if are(queue)
    ]


PATIENCE_S = 60.0
PUT_OFF_S = 1.0
"""For so long, at least, a queue that puts off a failed job does that."""
only = pytest.mark.parametrize
ORDERED = queues(lambda queue: queue.ordered)
FREED_BY_CONNECTION = queues(lambda queue: not queue.claims_survive_connection)
EXPIRING = queues(lambda queue: queue.options_type.find_option(OptionRole.EXPIRY) is not None)
PUTTING_OFF = queues(lambda queue: queue.puts_off_failed)
OFFERING_AGAIN = queues(lambda queue: not queue.puts_off_failed)


@pytest.fixture(params=queues())
def open_one(request: pytest.FixtureRequest, empty_on: EmptyOn) -> Iterator[OpenQueue]:
    """Opens the queue under test, installed on an empty database."""
    kind, engine, always = request.param
    endpoint = empty_on(engine)
    second = find_queues()[kind].second_engine
    if second is not None:
        endpoint = endpoint.model_copy(update={"second": empty_on(cast("Engine", second))})
    opened: list[Queue[Any]] = []

    def open_another(**options: object) -> Queue[Any]:
        opened.append(open_queue(kind, {**always, **options}, endpoint, f"test-{len(opened)}"))
        if opened[-1].claims_after_schedule:
            take_turns(opened[-1])
        return opened[-1]

    open_another().install()
    yield open_another
    for queue in opened:
        close_queue(queue, engine)


def take_turns(queue: Queue[Any]) -> None:
    """Let the scheduler have its turns after each enqueue, as in a run it has by itself."""

    def and_schedule(add: Callable[[Sequence[NewJob]], Sequence[int]]) -> Callable[[Sequence[NewJob]], Sequence[int]]:
        def add_and_schedule(jobs: Sequence[NewJob]) -> Sequence[int]:
            ids = add(jobs)
            while queue.schedule() == 0:
                pass
            return ids

        return add_and_schedule

    queue.enqueue = and_schedule(queue.enqueue)  # type: ignore[method-assign, assignment]
    queue.load = and_schedule(queue.load)  # type: ignore[method-assign, assignment]


def expiring_after_1_s(open_one: OpenQueue) -> Queue[Any]:
    """Open the queue with claims of one second."""
    option = type(open_one()).options_type.find_option(OptionRole.EXPIRY)
    assert option is not None
    return open_one(**{option: 1})


def claim_one(queue: Queue[Any]) -> Claim:
    (claim,) = queue.claim()
    return claim


def claim_patiently(queue: Queue[Any]) -> Claim:
    """Claim as soon as there is something: a server needs a moment to notice that a session is gone."""
    until_s = time.monotonic() + PATIENCE_S
    while not (claims := queue.claim()):
        assert time.monotonic() < until_s, "nothing could be claimed"
        time.sleep(0.02)
    return claims[0]


def test_jobs_get_an_id_each_in_the_order_in_which_they_were_given(open_one: OpenQueue) -> None:
    ids = open_one().enqueue(JOBS)
    assert len(set(ids)) == len(JOBS)
    assert list(ids) == sorted(ids)


def test_a_backlog_that_is_loaded_is_as_if_it_had_been_enqueued(open_one: OpenQueue) -> None:
    queue = open_one()
    ids = [*queue.load(JOBS[:3]), *queue.enqueue(JOBS[3:4]), *open_one().load(JOBS[4:])]
    assert len(set(ids)) == len(JOBS)
    assert queue.depth() == len(JOBS)
    assert {job_id for job_id, _ in queue.job_ids()} == set(ids)
    worked = {}
    for _ in ids:
        claim = claim_one(queue)
        worked[claim.job_id] = claim.payload
        queue.complete(claim)
    assert worked == {job_id: job.payload for job_id, job in zip(ids, JOBS, strict=True)}
    assert queue.is_drained()


def test_an_empty_queue_gives_nothing(open_one: OpenQueue) -> None:
    queue = open_one()
    assert list(queue.claim()) == []
    assert queue.depth() == 0
    assert queue.backlog().oldest_job_s is None


@only("open_one", ORDERED, indirect=True)
def test_jobs_are_claimed_in_the_order_of_their_enqueueing(open_one: OpenQueue) -> None:
    queue = open_one()
    ids = list(queue.enqueue(JOBS))
    claimed = []
    for _ in ids:
        claim = claim_one(queue)
        claimed.append(claim.job_id)
        queue.complete(claim)
    assert claimed == ids
    assert list(queue.claim()) == []


def test_a_claim_carries_the_payload(open_one: OpenQueue) -> None:
    queue = open_one()
    queue.enqueue(JOBS[3:4])
    assert claim_one(queue).payload == JOBS[3].payload


def test_a_claimed_job_is_given_to_no_other_worker(open_one: OpenQueue) -> None:
    first, second = open_one(), open_one()
    ids = set(first.enqueue(JOBS[:2]))
    assert {claim_one(first).job_id, claim_one(second).job_id} == ids
    assert list(open_one().claim()) == []


def test_a_claimed_job_does_not_count_as_waiting(open_one: OpenQueue) -> None:
    queue, watcher = open_one(), open_one()
    queue.enqueue(JOBS)
    claim = claim_one(queue)
    assert watcher.depth() == len(JOBS) - 1
    queue.complete(claim)
    assert watcher.depth() == len(JOBS) - 1


def test_the_snapshot_distinguishes_claimed_jobs_from_queued_ones(open_one: OpenQueue) -> None:
    queue, watcher = open_one(), open_one()
    queued = set(queue.enqueue(JOBS[:3]))
    completed, claimed = claim_one(queue), None
    queue.complete(completed)
    claimed = claim_one(queue).job_id
    queued -= {completed.job_id, claimed}
    assert dict(watcher.job_ids()) == {claimed: True, **dict.fromkeys(queued, False)}


def test_a_snapshot_finds_every_one_of_many_jobs(open_one: OpenQueue) -> None:
    queue = open_one()
    ids = queue.enqueue(JOBS * 200)
    assert sorted(job_id for job_id, _ in open_one().job_ids()) == sorted(ids)


def test_a_queue_is_drained_when_its_last_job_is_completed(open_one: OpenQueue) -> None:
    queue, watcher = open_one(), open_one()
    queue.enqueue(JOBS[:1])
    assert not watcher.is_drained()
    claim = claim_one(queue)
    assert not watcher.is_drained()
    queue.complete(claim)
    assert watcher.is_drained()


@only("open_one", FREED_BY_CONNECTION, indirect=True)
def test_a_worker_that_dies_gives_its_job_back(open_one: OpenQueue) -> None:
    dying, other = open_one(), open_one()
    (job_id,) = dying.enqueue(JOBS[:1])
    assert claim_one(dying).job_id == job_id
    dying.connection.close()
    assert claim_patiently(other).job_id == job_id


@only("open_one", EXPIRING, indirect=True)
def test_a_claim_that_has_expired_counts_as_waiting_and_is_given_to_another_worker(open_one: OpenQueue) -> None:
    dying, other = expiring_after_1_s(open_one), expiring_after_1_s(open_one)
    (job_id,) = dying.enqueue(JOBS[:1])
    first = claim_one(dying)
    if other.claims_survive_connection:
        dying.connection.close()
    until_s = time.monotonic() + PATIENCE_S
    while other.depth() == 0:
        assert time.monotonic() < until_s, "it does not expire"
        time.sleep(0.05)
    assert dict(other.job_ids()) == {job_id: False}
    again = claim_one(other)
    assert again.job_id == job_id
    assert (first.attempt, again.attempt) == (1, 2)


@only("open_one", PUTTING_OFF, indirect=True)
def test_a_failed_job_is_kept_and_put_off(open_one: OpenQueue) -> None:
    queue, watcher = open_one(), open_one()
    (job_id,) = queue.enqueue(JOBS[:1])
    claim = claim_one(queue)
    failed_s = time.monotonic()
    queue.fail(claim, "no luck")
    further = queue.claim()
    assert not further or time.monotonic() >= failed_s + PUT_OFF_S
    assert dict(watcher.job_ids()) == {job_id: bool(further)}


@only("open_one", OFFERING_AGAIN, indirect=True)
def test_a_failed_job_is_kept_and_offered_again(open_one: OpenQueue) -> None:
    queue, watcher = open_one(), open_one()
    (job_id,) = queue.enqueue(JOBS[:1])
    queue.fail(claim_one(queue), "no luck")
    assert watcher.depth() == 1
    assert dict(watcher.job_ids()) == {job_id: False}
    assert claim_one(queue).job_id == job_id


def test_the_age_of_the_oldest_job_is_known(open_one: OpenQueue) -> None:
    queue = open_one()
    queue.enqueue(JOBS)
    age_s = queue.backlog().oldest_job_s
    assert age_s is not None
    assert 0 <= age_s < 60


def test_a_queue_describes_itself(open_one: OpenQueue) -> None:
    queue = type(open_one())
    assert queue.summary
    assert queue.source
    assert queue.tables
    assert all(field.description for field in queue.options_type.model_fields.values())
