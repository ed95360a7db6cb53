"""What is particular to NATS JetStream: deliveries that are repeated, batches that are added as one, and how a connection breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from nats.errors import MaxPayloadError
from pydantic import SecretStr

from stallbench.engines.nats.driver import DRIVER, ConnectionLostError
from stallbench.queues import Claim, NewJob, Queue
from stallbench.queues.jetstream import JetStreamOptions
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.setup.components import MissingComponentError
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

JOB = NewJob(payload="{}")
Open = Callable[..., Queue[JetStreamOptions]]


@pytest.fixture
def endpoint(empty_on: EmptyOn) -> Endpoint:
    return empty_on("nats")


@pytest.fixture
def install(endpoint: Endpoint) -> Iterator[Open]:
    """Opens the queue with options, and creates its stream."""
    with ExitStack() as stack:

        def open_one(**options: int | str) -> Queue[JetStreamOptions]:
            queue = stack.enter_context(opened_queue("jetstream", options, endpoint, "test"))
            queue.install()
            return queue

        yield open_one


def claim_one(queue: Queue[JetStreamOptions]) -> Claim:
    (claim,) = queue.claim()
    return claim


def claim_again(queue: Queue[JetStreamOptions]) -> Claim:
    return wait_for(lambda: next(iter(queue.claim()), None), "a message that is delivered again")


def test_a_message_that_nobody_acknowledges_is_delivered_again(install: Open) -> None:
    queue = install(ack_wait=1)
    (job_id,) = queue.enqueue([JOB])
    assert claim_one(queue).attempt == 1
    again = claim_again(queue)
    assert (again.job_id, again.attempt) == (job_id, 2)
    queue.complete(again)
    assert queue.is_drained()


def test_a_failed_job_is_delivered_again_after_its_time_and_as_often_as_it_may_be(install: Open) -> None:
    queue = install(ack_wait=1, retry_after=1, max_deliver=2)
    first, second = queue.enqueue([JOB, JOB])
    queue.fail(claim_one(queue), "no luck")
    other = claim_one(queue)
    assert other.job_id == second
    queue.complete(other)
    last = claim_again(queue)
    assert (last.job_id, last.attempt) == (first, 2)
    queue.fail(last, "no luck again")

    def is_given_up() -> bool:
        assert list(queue.claim()) == []
        return bool(queue.connection.ask("CONSUMER.INFO.jobs.workers")["num_ack_pending"] == 0)

    wait_for(is_given_up, "a message that the consumer has given up", within_s=10)
    assert list(dict(queue.job_ids())) == [first], "a job that is not delivered again stays in the stream"


def test_many_jobs_have_consecutive_numbers_and_are_listed_without_those_that_are_gone(install: Open) -> None:
    queue = install()
    ids = queue.enqueue([JOB] * 1500)
    assert ids == list(range(1, 1501))
    claims = [claim_one(queue) for _ in range(3)]
    queue.complete(claims[1])
    held = dict(queue.job_ids())
    assert set(held) == set(ids) - {claims[1].job_id}
    assert {job_id for job_id, is_claimed in held.items() if is_claimed} == {claims[0].job_id, claims[2].job_id}
    assert queue.depth() == 1497


def test_of_jobs_that_are_enqueued_together_none_is_there_if_one_is_refused(install: Open) -> None:
    queue = install()
    with pytest.raises(MaxPayloadError):
        queue.enqueue([JOB, NewJob(payload="x" * (queue.connection.largest_message_bytes + 1)), JOB])
    assert queue.is_drained()
    assert list(queue.enqueue([JOB, JOB])) == [1, 2]


def test_an_error_has_jetstream_s_own_words_and_leaves_the_connection_usable(endpoint: Endpoint) -> None:
    with opened_queue("jetstream", {}, endpoint, "test") as queue:
        with pytest.raises(DRIVER.errors) as missing:
            queue.depth()
        assert (DRIVER.code(missing.value), DRIVER.describe(missing.value)) == ("10059", "stream not found")
        assert queue.recover(missing.value)


def test_nobody_gets_in_without_the_password(endpoint: Endpoint) -> None:
    with pytest.raises(DRIVER.errors, match=r"[Aa]uthorization"):
        DRIVER.connect(endpoint.model_copy(update={"password": SecretStr("guessed")}), "test")


class TestABrokenConnection:
    """Whatever breaks it, the call in progress ends at once, and the connection is known to be gone."""

    def test_by_the_end_of_the_server(self, servers: PrivateServers) -> None:
        try:
            server = servers.start("nats", {})
        except MissingComponentError as error:
            pytest.skip(str(error))
        assert server.process is not None
        with opened_queue("jetstream", {}, server.endpoint, "test") as queue:
            queue.install()
            (job_id,) = queue.enqueue([JOB])
            start_again = servers.kill(server.process)
            with pytest.raises(ConnectionLostError) as lost:
                queue.claim()
            assert not queue.recover(lost.value)
            assert DRIVER.is_closed(queue.connection)
        with pytest.raises(ConnectionLostError):
            DRIVER.connect(server.endpoint, "test")
        start_again()
        with opened_when_up(server.endpoint) as stack:
            again = stack.enter_context(opened_queue("jetstream", {}, server.endpoint, "test"))
            assert claim_one(again).job_id == job_id, "what was acknowledged by the server is still there"

    def test_from_another_thread(self, endpoint: Endpoint) -> None:
        connection = DRIVER.connect(endpoint, "test")
        connection._run(connection._client.subscribe("silence"))
        threading.Timer(0.1, DRIVER.abort, [connection]).start()
        with pytest.raises(ConnectionLostError):
            connection.request("silence", b"is there anybody?")
        assert DRIVER.is_closed(connection)


def opened_when_up(endpoint: Endpoint) -> ExitStack:
    def try_to_connect() -> ExitStack | None:
        try:
            connection = DRIVER.connect(endpoint, "test")
        except DRIVER.errors:
            return None
        stack = ExitStack()
        stack.callback(connection.close)
        return stack

    return wait_for(try_to_connect, "a server that is up again")
