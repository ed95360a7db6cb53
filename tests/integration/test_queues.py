"""What every queue must do on every engine that it runs on. A queue that is added to `stallbench.queues` is tested
by being there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stallbench.drivers.postgres import connect
from stallbench.open_queue import open_queue
from stallbench.queues import Claim, LostRaceError, NewJob, Queue, find_queues
from stallbench.queues.que import Que, QueOptions
from stallbench.records.endpoint import Endpoint

pytestmark = pytest.mark.integration

OpenQueue = Callable[[], Queue[Any]]
JOBS = [NewJob(payload=f'{{"n":{n}}}') for n in range(5)]


@pytest.fixture(params=[kind for kind, queue in find_queues().items() if "postgres" in queue.engines])
def open_one(request: pytest.FixtureRequest, database: Any) -> Iterator[OpenQueue]:
    """Opens the queue under test, installed on an empty database, on a new connection at each call."""
    endpoint: Endpoint = database.direct
    opened: list[Queue[Any]] = []

    # A reservation that runs out does so as soon as it can, so that a test need not wait for it.
    expiry = find_queues()[request.param].expiry_option
    options = {expiry: 2} if expiry else {}

    def open_another() -> Queue[Any]:
        opened.append(open_queue(request.param, options, endpoint, f"test-{len(opened)}"))
        return opened[-1]

    open_another().install()
    yield open_another
    for queue in opened:
        queue.connection.close()


def claim_one(queue: Queue[Any]) -> Claim:
    (claim,) = queue.claim()
    return claim


def claim_within(queue: Queue[Any], within_s: float) -> Claim:
    """Claim as soon as there is something: a server needs a moment to notice that a session is gone."""
    until_s = time.monotonic() + within_s
    while not (claims := queue.claim()):
        assert time.monotonic() < until_s, "nothing could be claimed"
        time.sleep(0.02)
    return claims[0]


def test_jobs_get_an_id_each_in_the_order_in_which_they_were_given(open_one: OpenQueue) -> None:
    ids = open_one().enqueue(JOBS)
    assert len(set(ids)) == len(JOBS)
    assert list(ids) == sorted(ids)


def test_an_empty_queue_gives_nothing(open_one: OpenQueue) -> None:
    queue = open_one()
    assert list(queue.claim()) == []
    assert queue.depth() == 0
    assert queue.backlog().oldest_job_s is None


def test_jobs_are_claimed_in_the_order_of_their_enqueueing(open_one: OpenQueue) -> None:
    queue = open_one()
    ids = list(queue.enqueue(JOBS))
    claimed = []
    for _ in ids:
        claim = claim_one(queue)
        claimed.append(claim.job_id)
        queue.complete(claim)
    assert sorted(claimed) == ids
    if queue.ordered:
        assert claimed == ids
    assert list(queue.claim()) == []


def test_a_claim_carries_the_payload(open_one: OpenQueue) -> None:
    queue = open_one()
    queue.enqueue(JOBS[3:4])
    assert claim_one(queue).payload == JOBS[3].payload


def test_a_claimed_job_is_given_to_nobody_else(open_one: OpenQueue) -> None:
    first, second = open_one(), open_one()
    ids = list(first.enqueue(JOBS[:2]))
    assert [claim_one(first).job_id, claim_one(second).job_id] == ids
    assert list(open_one().claim()) == []


def test_a_claimed_job_does_not_count_as_waiting(open_one: OpenQueue) -> None:
    queue, watcher = open_one(), open_one()
    queue.enqueue(JOBS)
    claim = claim_one(queue)
    assert watcher.depth() == len(JOBS) - 1
    queue.complete(claim)
    assert watcher.depth() == len(JOBS) - 1


def test_the_census_tells_claimed_jobs_from_queued_ones(open_one: OpenQueue) -> None:
    queue, watcher = open_one(), open_one()
    ids = list(queue.enqueue(JOBS[:3]))
    queue.complete(claim_one(queue))
    claim_one(queue)
    assert dict(watcher.job_ids()) == {ids[1]: True, ids[2]: False}


def test_a_worker_that_dies_gives_its_job_back(open_one: OpenQueue) -> None:
    dying, other = open_one(), open_one()
    (job_id,) = dying.enqueue(JOBS[:1])
    assert claim_one(dying).job_id == job_id
    dying.connection.close()
    assert claim_within(other, within_s=10).job_id == job_id


def test_a_failed_job_is_kept_and_comes_again(open_one: OpenQueue) -> None:
    queue, watcher = open_one(), open_one()
    (job_id,) = queue.enqueue(JOBS[:1])
    queue.fail(claim_one(queue), "no luck")
    assert dict(watcher.job_ids()) == {job_id: False}
    again = claim_within(queue, within_s=10)
    assert (again.job_id, again.attempt in (2, None)) == (job_id, True)


def test_the_age_of_the_oldest_job_is_told(open_one: OpenQueue) -> None:
    queue = open_one()
    queue.enqueue(JOBS)
    age_s = queue.backlog().oldest_job_s
    assert age_s is not None
    assert 0 <= age_s < 60


def test_a_queue_says_what_it_is(open_one: OpenQueue) -> None:
    queue = type(open_one())
    assert queue.summary
    assert queue.source
    assert queue.tables
    assert all(field.description for field in queue.options_type.model_fields.values())


class TestQueRecheck:
    """Que looks again after locking: its walk sees the jobs of its snapshot, also those that were completed since."""

    def open(self, database: Any, *, recheck: bool) -> Que:
        return Que(connect(database.direct, "que"), QueOptions(recheck=recheck))

    def claim_in_stale_snapshot(self, database: Any, *, recheck: bool) -> tuple[int, Que]:
        """Let another worker complete the job after a claiming session took its snapshot."""
        fast, slow = self.open(database, recheck=True), self.open(database, recheck=recheck)
        fast.install()
        (job_id,) = fast.enqueue(JOBS[:1])
        slow.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        slow.connection.execute("SELECT 1 FROM que_jobs")
        fast.complete(claim_one(fast))
        fast.connection.close()
        return job_id, slow

    def test_without_it_a_completed_job_is_claimed_again(self, database: Any) -> None:
        job_id, slow = self.claim_in_stale_snapshot(database, recheck=False)
        with slow.connection:
            assert claim_one(slow).job_id == job_id

    def test_with_it_the_race_is_noticed(self, database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        job_id, slow = self.claim_in_stale_snapshot(database, recheck=True)
        execute = slow.execute

        def end_the_snapshot_before_the_check(name: str, *parameters: bytes | None) -> Any:
            if name == "check_job":
                slow.connection.execute("COMMIT")
            return execute(name, *parameters)

        monkeypatch.setattr(slow, "execute", end_the_snapshot_before_the_check)
        with slow.connection, pytest.raises(LostRaceError) as lost:
            slow.claim()
        assert lost.value.job_id == job_id
