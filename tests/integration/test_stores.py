"""What is particular to the three algorithms of the Aerospike article: the race, the full record, the job that goes with its worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stallbench.queues import NewJob, Queue, RefusedError, find_queues
from stallbench.queues.id_store import IdStoreOptions
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.integration.real_processes import start_recording

pytestmark = pytest.mark.integration

Open = Callable[..., Any]
JOB = NewJob(payload="{}")


def stores(kind: str) -> list[Any]:
    """Return the queue of that kind, once for each engine that it runs on."""
    return [pytest.param((kind, engine), id=f"{kind}-{engine}") for engine in sorted(find_queues()[kind].engines)]


@pytest.fixture
def endpoint(request: pytest.FixtureRequest, empty_on: EmptyOn) -> Endpoint:
    return empty_on(request.param[1])


@pytest.fixture
def open_one(request: pytest.FixtureRequest, endpoint: Endpoint) -> Iterator[Open]:
    """Opens the queue under test, installed, on a new connection at each call."""
    kind = request.node.callspec.params["endpoint"][0]
    with ExitStack() as stack:

        def open_another(**options: object) -> Queue[Any]:
            return stack.enter_context(opened_queue(kind, options, endpoint, "test"))

        open_another().install()
        yield open_another


@pytest.mark.parametrize("endpoint", stores("fcfs"), indirect=True)
class TestFirstComeFirstServed:
    def test_two_workers_between_the_two_steps_get_the_same_job(self, open_one: Open) -> None:
        one, other = open_one(), open_one()
        (job_id,) = one.enqueue([JOB])
        found = [each.store.find_first_unprocessed() for each in (one, other)]
        for each, claim in zip((one, other), found, strict=True):
            each.store.reserve(claim)
        assert [claim.job_id for claim in found] == [job_id, job_id]

    def test_neither_of_them_hears_of_it(self, open_one: Open) -> None:
        one, other = open_one(), open_one()
        one.enqueue([JOB])
        claim = one.store.find_first_unprocessed()
        other.complete(*other.claim())
        one.store.reserve(claim)
        one.complete(claim)
        assert one.is_drained()

    def test_jobs_that_are_done_stay_where_they_were_and_count_as_nothing(self, open_one: Open) -> None:
        queue = open_one()
        ids = list(queue.enqueue([JOB] * 3))
        for _ in ids[:2]:
            queue.complete(*queue.claim())
        assert queue.depth() == 1
        assert dict(queue.job_ids()) == {ids[2]: False}


@pytest.mark.parametrize("endpoint", stores("id_store"), indirect=True)
class TestIdStore:
    def test_the_article_s_record_has_room_for_16_000_ids(self, open_one: Open) -> None:
        queue = open_one()
        assert IdStoreOptions().most_ids == 16_000
        queue.enqueue([JOB] * 16_000)
        with pytest.raises(RefusedError, match="16000 ids of 8 bytes are in it and 1 more would exceed 128000 bytes"):
            queue.enqueue([JOB])

    def test_an_enqueue_that_is_refused_leaves_nothing(self, open_one: Open) -> None:
        queue = open_one(record_bytes=3 * 8)
        ids = list(queue.enqueue([JOB] * 2))
        with pytest.raises(RefusedError):
            queue.enqueue([JOB] * 2)
        assert dict(queue.job_ids()) == dict.fromkeys(ids, False)

    def test_a_claim_makes_room(self, open_one: Open) -> None:
        queue = open_one(record_bytes=8)
        queue.enqueue([JOB])
        queue.claim()
        assert len(queue.enqueue([JOB])) == 1

    def test_a_producer_records_what_was_refused_and_continues(
        self, endpoint: Endpoint, open_one: Open, servers: PrivateServers, tmp_path: Path
    ) -> None:
        queue, options = open_one(record_bytes=2 * 8), {"record_bytes": 2 * 8}
        producer = start_recording(
            servers.processes, "producer", "producer-1", endpoint, "id_store", tmp_path, rate=50, queue_options=options
        )
        producer.wait_for(Event.REFUSED, 3)
        queue.complete(*queue.claim())
        producer.wait_for(Event.ENQUEUED, 3)
        producer.end()
        assert {record.event for record in producer.records()} == {Event.ENQUEUED, Event.REFUSED}
        assert {record.job_id for record in producer.of(Event.REFUSED)} == {None}
        assert len(producer.of(Event.ENQUEUED)) == len(dict(queue.job_ids())) + 1

    def test_of_a_backlog_that_is_too_large_the_part_that_fits_is_enqueued(
        self, endpoint: Endpoint, open_one: Open, servers: PrivateServers, tmp_path: Path
    ) -> None:
        queue, options = open_one(), {"record_bytes": 7 * 8}
        producer = start_recording(
            servers.processes, "producer", "backlog", endpoint, "id_store", tmp_path, rate=0, backlog=10, queue_options=options
        )
        producer.end()
        assert (len(producer.of(Event.ENQUEUED)), len(producer.of(Event.REFUSED))) == (7, 3)
        assert queue.depth() == 7


@pytest.mark.parametrize("endpoint", stores("token_store"), indirect=True)
class TestTokenStore:
    def test_no_worker_gets_the_job_of_a_worker_that_is_gone(self, open_one: Open) -> None:
        dying, other = open_one(), open_one()
        lost, left = dying.enqueue([JOB] * 2)
        assert dying.claim()[0].job_id == lost
        dying.connection.close()
        assert other.claim()[0].job_id == left
        assert list(other.claim()) == []
        assert dict(other.job_ids()) == {lost: True, left: True}

    def test_a_claim_on_an_empty_queue_takes_no_token(self, open_one: Open) -> None:
        queue = open_one()
        assert list(queue.claim()) == []
        (job_id,) = queue.enqueue([JOB])
        assert queue.claim()[0].job_id == job_id

    def test_with_the_function_as_the_article_has_it_the_next_job_is_lost(self, open_one: Open) -> None:
        queue = open_one(past_the_end=True)
        assert list(queue.claim()) == []
        lost, left = queue.enqueue([JOB] * 2)
        assert queue.claim()[0].job_id == left
        assert dict(queue.job_ids()) == {lost: True, left: True}
