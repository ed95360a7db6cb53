"""What Laravel's queue does when two transactions get in each other's way, and what its optimistic variant does instead of waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pymysql
import pytest

from stallbench.engines import EngineName, driver_of
from stallbench.queues import Claim, LostRaceError, NewJob, Queue
from stallbench.queues.laravel_optimistic import LaravelOptimistic, LaravelOptimisticOptions
from stallbench.queues.queue_client import open_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.innodb_rival import Rival

pytestmark = pytest.mark.integration

Open = Callable[..., Queue[Any]]
"""Opens a queue of a kind on an endpoint, with options."""
SQL_ENGINES: list[EngineName] = ["mariadb", "mysql", "postgres", "sqlite"]
JOBS = [NewJob(payload="{}")] * 20


@pytest.fixture
def open_on() -> Iterator[Open]:
    """Opens queues that are closed when the test is over."""
    with ExitStack() as stack:

        def open_one(endpoint: Endpoint, kind: str = "laravel", **options: object) -> Queue[Any]:
            queue = open_queue(kind, options, endpoint, "test")
            stack.callback(driver_of(endpoint.engine).close, queue.connection)
            return queue

        yield open_one


def claim_one(queue: Queue[Any]) -> Claim:
    (claim,) = queue.claim()
    return claim


class TestADeadlockInTheDeletion:
    """On InnoDB. The worker has done its job; whether that job is re-executed depends on the article's mitigations."""

    @pytest.fixture
    def endpoint(self, empty_on: EmptyOn) -> Endpoint:
        return empty_on("mariadb")

    def complete_in_a_deadlock(self, queue: Queue[Any], rival: Rival) -> list[str]:
        """Complete the first job while a rival makes a deadlock of it, once; returns what the queue answered by trying again."""
        answered: list[str] = []
        queue.on_retry = lambda error: answered.append(str(error.args[0]))
        claim = claim_one(queue)
        rival.hold_index()
        with ThreadPoolExecutor(1) as pool:
            completion = pool.submit(queue.complete, claim)
            rival.make_deadlock(claim.job_id)
            rival.let_go()
            completion.result()
        return answered

    def test_is_an_error_without_further_tries_and_the_job_stays(self, endpoint: Endpoint, open_on: Open) -> None:
        queue = open_on(endpoint, delete_retries=1)
        queue.install()
        (job_id,) = queue.enqueue(JOBS[:1])
        with Rival(endpoint) as rival, pytest.raises(pymysql.OperationalError, match="Deadlock found") as raised:
            self.complete_in_a_deadlock(queue, rival)
        assert queue.recover(raised.value), "the connection is fit for the next move"
        assert list(queue.job_ids()) == [(job_id, True)]

    def test_is_answered_by_a_further_try(self, endpoint: Endpoint, open_on: Open) -> None:
        queue = open_on(endpoint, delete_retries=5)
        queue.install()
        queue.enqueue(JOBS[:1])
        with Rival(endpoint) as rival:
            assert self.complete_in_a_deadlock(queue, rival) == ["1213"]
        assert queue.is_drained()

    def test_leaves_a_marked_job_to_any_worker_that_finds_it(self, endpoint: Endpoint, open_on: Open) -> None:
        queue = open_on(endpoint, delete_mark=True, retry_after=1)
        queue.install()
        queue.enqueue(JOBS[:1])
        with Rival(endpoint) as rival:
            assert self.complete_in_a_deadlock(queue, rival) == ["1213"]
            assert rival.run("SELECT delete_mark FROM jobs") == [(1,)]
            assert queue.is_drained(), "a marked job is done"
            assert queue.depth() == 0
            assert list(queue.job_ids()) == []
            rival.run("UPDATE jobs SET reserved_at = reserved_at - 2")
            assert list(queue.claim()) == []
            assert rival.run("SELECT * FROM jobs") == []


@pytest.mark.parametrize("engine", SQL_ENGINES)
class TestARaceOfTwo:
    """Both read the same free job; one of them reserves it."""

    def test_the_slower_worker_learns_it_and_has_no_job(self, engine: EngineName, empty_on: EmptyOn, open_on: Open) -> None:
        endpoint = empty_on(engine)
        slow, fast = (open_on(endpoint, "laravel_optimistic", pick="first") for _ in range(2))
        slow.install()
        ids = slow.enqueue(JOBS[:2])
        slow._pick = self.be_overtaken_by(fast)  # type: ignore[attr-defined]
        with pytest.raises(LostRaceError) as lost:
            slow.claim()
        assert lost.value.job_id == ids[0]
        assert dict(fast.job_ids()) == {ids[0]: True, ids[1]: False}

    @staticmethod
    def be_overtaken_by(fast: Queue[Any]) -> Callable[[int], int]:
        """Return what picks the first job, only after ``fast`` has."""

        def pick(count: int) -> int:
            claim_one(fast)
            return 0

        return pick


class TestTheWindow:
    """Which of the available jobs the optimistic variant tries to reserve."""

    @pytest.fixture
    def places(self, empty_on: EmptyOn, open_on: Open) -> Callable[..., list[int]]:
        """Claims all jobs with the given options, and returns the position of each among those that were left."""

        def places(**options: object) -> list[int]:
            queue = open_on(empty_on("sqlite"), "laravel_optimistic", **options)
            queue.install()
            queue.random.seed(1)
            left = list(queue.enqueue(JOBS * 10))
            found = []
            while left:
                found.append(left.index(claim_one(queue).job_id))
                del left[found[-1]]
            return found

        return places

    def test_first_keeps_the_order(self, places: Callable[..., list[int]]) -> None:
        assert set(places(window=10, pick="first")) == {0}

    def test_a_window_of_one_keeps_the_order(self, places: Callable[..., list[int]]) -> None:
        assert set(places(window=1, pick="uniform")) == {0}

    def test_uniform_takes_every_job_of_the_window_with_equal_probability(self, places: Callable[..., list[int]]) -> None:
        counts = Counter(places(window=4, pick="uniform")[:-3])
        assert set(counts) == {0, 1, 2, 3}
        assert max(counts.values()) < 2 * min(counts.values())

    def test_exponential_takes_the_later_the_less(self, places: Callable[..., list[int]]) -> None:
        counts = Counter(places(window=4, pick="exponential")[:-3])
        assert set(counts) == {0, 1, 2, 3}
        assert counts[0] > counts[1] > counts[3]

    @pytest.mark.parametrize(("window", "jobs"), [("N/2", 5), ("N", 9), ("2N", 18), (3, 3)])
    def test_is_measured_in_workers(self, window: Any, jobs: int) -> None:
        options = LaravelOptimisticOptions(window=window)
        assert LaravelOptimistic.resolve_options(options, workers=9).window == jobs


@pytest.mark.parametrize("attempts_type", ["tinyint", "smallint"])
def test_a_job_whose_attempts_cannot_be_counted_blocks_all_claims(attempts_type: str, empty_on: EmptyOn, open_on: Open) -> None:
    endpoint = empty_on("mariadb")
    queue = open_on(endpoint, attempts_type=attempts_type)
    queue.install()
    first, _ = queue.enqueue([NewJob(payload="{}"), NewJob(payload="{}")])
    for _ in range(255):
        claim = claim_one(queue)
        assert claim.job_id == first
        queue.fail(claim, "not there")
    if attempts_type == "smallint":
        assert claim_one(queue).attempt == 256
        return
    for _ in range(2):
        with pytest.raises(pymysql.err.DataError, match="Out of range value for column 'attempts'") as raised:
            queue.claim()
        assert queue.recover(raised.value)


@pytest.mark.parametrize("engine", SQL_ENGINES)
@pytest.mark.parametrize("kind", ["laravel", "laravel_optimistic"])
def test_the_server_says_by_which_index_it_finds_the_next_job(
    engine: EngineName, kind: str, empty_on: EmptyOn, open_on: Open
) -> None:
    queue = open_on(empty_on(engine), kind, other_jobs=1000)
    queue.install()
    queue.enqueue(JOBS)
    plan = queue.explain()
    assert plan is not None
    assert "\n" not in plan
    assert "jobs_queue_index" in plan or "PRIMARY" in plan or "jobs_pkey" in plan, plan


@pytest.mark.parametrize(("hint", "index"), [("queue_index", "jobs_queue_index"), ("primary", "PRIMARY")])
def test_a_hint_decides_on_the_index(hint: str, index: str, empty_on: EmptyOn, open_on: Open) -> None:
    queue = open_on(empty_on("mariadb"), hint=hint)
    queue.install()
    assert f"by {index}" in str(queue.explain())
