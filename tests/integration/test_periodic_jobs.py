"""What is special about `periodic_jobs`: who may enqueue after a leader has stood still; test_queues.py tests what every queue must do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stallbench.queues import NewJob, Queue, RefusedError
from stallbench.queues.queue_client import close_queue, open_queue
from tests.integration.conftest import EmptyOn
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OpenNode = Callable[[str], Queue[Any]]
LEASE_S = 600.0
"""Longer than a machine stands still: a lease is over when a test says so."""
_NODES = ("producer-1", "producer-2")


@pytest.fixture
def open_pair(empty_on: EmptyOn) -> Iterator[Callable[..., list[Queue[Any]]]]:
    """Opens the queue for two producers, and installs it."""
    endpoint = empty_on("postgres")
    opened: list[Queue[Any]] = []

    def open_both(**options: object) -> list[Queue[Any]]:
        options = {"lease": LEASE_S, "elect_every": 0.001, **options}
        opened.extend(open_queue("periodic_jobs", options, endpoint, name) for name in _NODES)
        opened[0].install()
        return opened

    yield open_both
    for queue in opened:
        close_queue(queue, "postgres")


def fires(queue: Queue[Any], period: int) -> bool:
    """Whether a producer enqueues the job of a period."""
    try:
        queue.enqueue([NewJob(payload="{}", key=str(period))])
    except RefusedError:
        return False
    return True


def end_lease(queue: Queue[Any]) -> None:
    """Let the leader's time be over, as if it had stood still for longer than its lease."""
    queue.connection.execute("UPDATE periodic_leader SET expires_at = clock_timestamp() - interval '1 s'")


def take_over(old: Queue[Any], new: Queue[Any]) -> None:
    """Let the first producer lead, and the second take over while the first stands still for longer than its lease."""
    assert (fires(old, 1), fires(new, 1)) == (True, False)
    end_lease(new)
    wait_for(lambda: fires(new, 2), "the second producer's election")


@pytest.mark.parametrize(("leader", "both_fire"), [("row", True), ("node", False), ("fenced", False)])
def test_whether_a_leader_that_stood_still_fires_again(
    open_pair: Callable[..., list[Queue[Any]]], leader: str, both_fire: bool
) -> None:
    old, new = open_pair(leader=leader, unique="none")
    take_over(old, new)
    assert fires(old, 3) == both_fire
    assert fires(new, 3)


def test_a_unique_key_stops_a_second_leader(open_pair: Callable[..., list[Queue[Any]]]) -> None:
    old, new = open_pair(leader="row", unique="on_conflict")
    take_over(old, new)
    assert (fires(new, 3), fires(old, 3)) == (True, False)


def test_a_fence_stops_a_leader_that_has_not_noticed_that_its_lease_is_over(open_pair: Callable[..., list[Queue[Any]]]) -> None:
    old, _ = open_pair(leader="fenced", unique="check", elect_every=60)
    assert fires(old, 1)
    end_lease(old)
    assert not fires(old, 2)
