"""What is particular to Laravel's queue on Redis: reservations that run out, and a server that forgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
import redis

from stallbench.engines import driver_of
from stallbench.processes.reaper import find_marked
from stallbench.queues import Claim, ClaimExpiredError, NewJob, Queue
from stallbench.queues.laravel_redis import LaravelRedisOptions
from stallbench.queues.queue_client import open_queue, opened_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

Open = Callable[[], Queue[LaravelRedisOptions]]
PATIENCE_S = 60.0


@pytest.fixture
def open_one(empty_on: EmptyOn) -> Iterator[Open]:
    """Opens the queue, with reservations of one second."""
    endpoint = empty_on("redis")
    with ExitStack() as stack:
        yield lambda: stack.enter_context(opened_queue("laravel_redis", {"retry_after": 1}, endpoint, "test"))


def claim_one(queue: Queue[LaravelRedisOptions]) -> Claim:
    (claim,) = queue.claim()
    return claim


def wait_until_expired() -> None:
    time.sleep(1.01)


def test_a_job_that_another_worker_has_by_now_is_not_completed(open_one: Open) -> None:
    slow, other = open_one(), open_one()
    (job_id,) = slow.enqueue([NewJob(payload="{}")])
    late = claim_one(slow)
    wait_until_expired()
    again = claim_one(other)
    with pytest.raises(ClaimExpiredError) as expired:
        slow.complete(late)
    assert expired.value.job_id == job_id
    other.complete(again)
    assert other.is_drained()


def test_a_late_completion_counts_if_no_other_worker_has_claimed_the_job(open_one: Open) -> None:
    queue = open_one()
    queue.enqueue([NewJob(payload="{}")])
    claim = claim_one(queue)
    wait_until_expired()
    queue.complete(claim)
    assert queue.is_drained()


def test_an_expired_job_goes_to_the_end_of_the_list(open_one: Open) -> None:
    queue = open_one()
    ids = list(queue.enqueue([NewJob(payload="{}")] * 3))
    claim_one(queue)
    wait_until_expired()
    assert [claim_one(queue).job_id for _ in ids] == [*ids[1:], ids[0]]


def test_the_scripts_do_not_change_a_payload(open_one: Open) -> None:
    payload = '{"path":"a/b","empty":[],"none":null,"text":"\\u00e9\\n\\"é😀","large":12345678901234567890}'
    queue = open_one()
    queue.enqueue([NewJob(payload=payload)])
    assert claim_one(queue).payload == payload


def test_the_server_may_lose_its_scripts(open_one: Open) -> None:
    queue = open_one()
    queue.enqueue([NewJob(payload="{}")])
    queue.connection.script_flush()
    assert claim_one(queue).attempt == 1


def test_what_the_server_refuses_does_not_cost_the_connection(open_one: Open) -> None:
    queue = open_one()
    queue.connection.set("queues:default", "no list")
    with pytest.raises(redis.ResponseError) as refused:
        queue.claim()
    assert queue.recover(refused.value)
    queue.connection.delete("queues:default")
    assert list(queue.claim()) == []


def test_the_server_carries_the_mark_by_which_the_reaper_recognises_it(servers: PrivateServers) -> None:
    process = servers.shared("redis").process
    assert process is not None
    assert process.pid in {found.pid for found in find_marked(servers.token, Path("/nowhere"))}


def test_a_server_that_forgot_everything_gives_no_id_again(servers: PrivateServers) -> None:
    servers.shared("redis")  # or there is none, and the test is skipped
    server = servers.start("redis", {"save": ""})
    open_new = partial(open_queue, "laravel_redis", {}, server.endpoint, "test")
    queue = open_new()
    queue.install()
    before = set(queue.enqueue([NewJob(payload="{}")] * 10))
    assert server.process is not None
    start_again = servers.kill(server.process)
    with pytest.raises(redis.ConnectionError) as lost:
        queue.claim()
    assert not queue.recover(lost.value), "the caller has to open a new one"
    start_again()
    queue = open_when_up(open_new, server.endpoint)
    assert list(queue.claim()) == []
    assert not before & set(queue.enqueue([NewJob(payload="{}")] * 10))
    assert len(list(queue.job_ids())) == 10


def open_when_up(open_new: Callable[[], Queue[LaravelRedisOptions]], endpoint: Endpoint) -> Queue[LaravelRedisOptions]:
    def try_to_open() -> Queue[LaravelRedisOptions] | None:
        with suppress(*driver_of(endpoint.engine).errors):
            return open_new()
        return None

    return wait_for(try_to_open, "a server that is up again", PATIENCE_S)
