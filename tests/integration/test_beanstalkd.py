"""What is particular to Beanstalkd: reservations that run out, a server that forgets, and every way in which a connection breaks."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial

import greenstalk
import pytest

from stallbench.engines import EngineName, driver_of
from stallbench.engines.beanstalkd.driver import DRIVER, BeanstalkdClient, ConnectionLostError
from stallbench.queues import Claim, NewJob, Queue
from stallbench.queues.beanstalkd import BeanstalkdOptions
from stallbench.queues.queue_client import open_queue, opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.setup.components import MissingComponentError
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

JOB = NewJob(payload="{}")
TRIES = 10
Open = Callable[..., Queue[BeanstalkdOptions]]


@pytest.fixture
def open_one(empty_on: EmptyOn) -> Iterator[Open]:
    """Opens the queue with options."""
    endpoint = empty_on("beanstalkd")
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(opened_queue("beanstalkd", options, endpoint, "test"))


def claim_one(queue: Queue[BeanstalkdOptions]) -> Claim:
    (claim,) = queue.claim()
    return claim


def test_a_job_that_another_worker_has_by_now_cannot_be_completed(open_one: Open) -> None:
    slow, other = open_one(ttr=1), open_one()
    slow.enqueue([JOB])
    late = claim_one(slow)
    time.sleep(1.1)
    (further,) = other.enqueue([JOB])
    # A move of the connection, without which 1.12 may forget that the time has run out.
    slow.connection.reserve_job(further % 10**10)
    assert claim_one(other).job_id == late.job_id
    with pytest.raises(greenstalk.NotFoundError) as missing:
        slow.complete(late)
    assert slow.recover(missing.value)
    assert (DRIVER.code(missing.value), DRIVER.describe(missing.value)) == ("NotFoundError", "the server answered NOT_FOUND")


def test_a_connection_whose_job_is_about_to_expire_gets_no_job(open_one: Open) -> None:
    for attempt in range(TRIES):
        queue = open_one(ttr=1, tube=f"of-try-{attempt}")
        queue.enqueue([JOB])
        began_s = time.monotonic()
        claim_one(queue)
        further = list(queue.claim())
        # Where the machine stood still for the whole second, the job may be had again, and nothing has been shown.
        if time.monotonic() < began_s + 1:
            break
    assert further == []


def test_tubes_do_not_mix(open_one: Open) -> None:
    one, other = open_one(), open_one(tube="other")
    (of_one,), (of_other,) = one.enqueue([JOB]), other.enqueue([JOB])
    assert (one.depth(), other.depth()) == (1, 1)
    assert [dict(one.job_ids()), dict(other.job_ids())] == [{of_one: False}, {of_other: False}]
    assert claim_one(other).job_id == of_other
    assert list(other.claim()) == []
    assert not one.is_drained()


def test_a_buried_job_is_still_there(open_one: Open) -> None:
    queue = open_one()
    ids = list(queue.enqueue([JOB] * 2))
    queue.connection.bury(claim_one(queue).handle)
    assert dict(queue.job_ids()) == dict.fromkeys(ids, False)
    assert queue.depth() == 1


def test_of_many_jobs_a_single_one_is_refused_and_the_connection_stays_in_step(open_one: Open) -> None:
    queue = open_one()
    too_big = NewJob(payload="x" * 2**21 + "x")
    with pytest.raises(greenstalk.JobTooBigError) as refused:
        queue.enqueue([JOB, too_big, JOB])
    assert queue.recover(refused.value)
    assert queue.depth() == 2
    assert claim_one(queue).payload == JOB.payload


def test_a_snapshot_finds_the_last_ids_although_failed_puts_took_some(open_one: Open) -> None:
    queue = open_one()
    with socket.create_connection(queue.connection._address) as broken:
        for _ in range(3):
            broken.sendall(b"put 0 0 1 1\r\nabc")
            assert broken.recv(100) == b"EXPECTED_CRLF\r\n"
    ids = set(queue.enqueue([JOB] * 3))
    assert {job_id for job_id, _ in queue.job_ids()} == ids


def test_a_server_that_is_stopped_has_ended_as_it_was_asked_to(servers: PrivateServers) -> None:
    try:
        server = servers.start("beanstalkd", {})
    except MissingComponentError as error:
        pytest.skip(str(error))
    server.check()
    server.stop()
    assert server.process is not None
    assert not server.process.exited_unexpectedly()


def test_a_server_that_forgot_everything_gives_no_id_again(servers: PrivateServers) -> None:
    try:
        server = servers.start("beanstalkd", {})
    except MissingComponentError as error:
        pytest.skip(str(error))
    open_new = partial(open_queue, "beanstalkd", {}, server.endpoint, "test")
    queue = open_new()
    before = set(queue.enqueue([JOB] * 3))
    assert server.process is not None
    start_again = servers.kill(server.process)
    with pytest.raises(ConnectionLostError) as lost:
        queue.claim()
    assert not queue.recover(lost.value)
    start_again()
    queue = open_when_up(open_new, "beanstalkd")
    assert not before & set(queue.enqueue([JOB] * 3))


def open_when_up(open_new: Callable[[], Queue[BeanstalkdOptions]], engine: EngineName) -> Queue[BeanstalkdOptions]:
    def try_to_open() -> Queue[BeanstalkdOptions] | None:
        with suppress(*driver_of(engine).errors):
            return open_new()
        return None

    return wait_for(try_to_open, "a server that is up again")


class TestABrokenConnection:
    """Whatever breaks it, one error of the driver's comes of it, and the connection is known to be gone."""

    @pytest.fixture
    def ends(self) -> Iterator[tuple[BeanstalkdClient, socket.socket]]:
        """A client and its server's end."""
        near, far = socket.socketpair()
        near.settimeout(1)
        with far:
            yield BeanstalkdClient(near), far

    @pytest.mark.parametrize("answer", [b"", b"RESERV", b"RESERVED 1 5\r\nab", b"RESERVED 1 5\r\nabcde"])
    def test_by_an_answer_that_ends_too_early(self, answer: bytes, ends: tuple[BeanstalkdClient, socket.socket]) -> None:
        client, far = ends
        far.sendall(answer)
        far.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionLostError):
            client.reserve(timeout=0)
        assert DRIVER.is_closed(client)
        with pytest.raises(ConnectionLostError):
            client.reserve(timeout=0)

    def test_by_an_answer_that_does_not_come(self, ends: tuple[BeanstalkdClient, socket.socket]) -> None:
        client, _ = ends
        with pytest.raises(ConnectionLostError, match="timed out"):
            client.reserve(timeout=0)
        assert DRIVER.is_closed(client)

    def test_when_the_server_does_not_answer(self) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            endpoint = Endpoint(engine="beanstalkd", host="127.0.0.1", port=closed.getsockname()[1], database="", user="")
        with pytest.raises(ConnectionLostError, match="refused"):
            DRIVER.connect(endpoint, "test")
