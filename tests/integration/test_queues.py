"""What every queue must do on every engine that it runs on. A queue that is added to `stallbench.queues` is tested
by being there; where queues promise different things, its own attributes say which of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from stallbench.engines import Engine
from stallbench.queues import Queue, find_queues
from stallbench.queues.queue_client import close_queue, open_queue
from stallbench.studies.conformance.promise import OpenQueue, QueuePromise, take_turns
from stallbench.studies.conformance.promises import PROMISES
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

WITH_OPTIONS: dict[str, list[dict[str, object]]] = {
    "que": [{"claim_after_last": True}],
    "redis_batches": [{"batch": 2, "hand_over": "delete_first"}],
    "status_column": [
        {"finish": "delete"},
        {"finish": "delete", "index": "none", "fillfactor": 50},
        {"retained": 250, "partition": 100},
    ],
}
"""Options that change how a queue moves a job, but nothing of what it must do."""


def trials() -> list[Any]:
    """Return each promise with each queue that gives it, once for each engine that it runs on, and again with each of `WITH_OPTIONS`."""
    return [
        pytest.param(
            promise,
            (kind, engine, options),
            id="-".join([promise.name, kind, engine, *(f"{key}={value}" for key, value in options.items())]),
        )
        for promise in PROMISES
        for kind, queue in find_queues().items()
        for engine in sorted(queue.engines)
        for options in ({}, *WITH_OPTIONS.get(kind, []))
        if promise.find_obstacle(queue) is None
    ]


@pytest.fixture
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


@pytest.mark.parametrize(("promise", "open_one"), trials(), indirect=["open_one"])
def test_a_queue_keeps_its_promise(promise: QueuePromise, open_one: OpenQueue) -> None:
    promise.check(open_one)
