"""What every queue must do on every engine that it runs on. A queue that is added to `stallbench.queues` is tested
by being there; where queues promise different things, its own attributes say which of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from stallbench.queues import find_queues
from stallbench.studies.conformance.promise import OpenQueue, QueuePromise
from stallbench.studies.conformance.promises import PROMISES
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

WITH_OPTIONS: dict[str, list[dict[str, object]]] = {
    "batch_claim": [{"batch": 3}],
    "insert_only_log": [{"range": 3}],
    "que": [{"claim_after_last": True}, {"batch": 3}],
    "redis_batches": [{"batch": 2, "hand_over": "delete_first"}],
    "status_column": [
        {"finish": "delete"},
        {"finish": "delete", "index": "none", "fillfactor": 50},
        {"retained": 250, "partition": 100},
    ],
}
"""Options that change how a queue moves a job, but nothing of what it must do."""

OF_OPTIONS = (
    "a claimed job is given to no other worker",
    "a failed job is kept and offered again",
    "a queue is drained when its last job is completed, and not before",
    "the snapshot distinguishes claimed jobs from queued ones",
)
"""What `make test` tries with other options, too: a job's way from its claim to its end. `make test-long` tries every promise."""
STARTS_A_PROCESS = "a claimed job stays with its worker when another worker process starts, works and stops"
WITH_A_PROCESS = ("laravel_redis", "skip_locked", "status_column")
"""Where that promise is tried by `make test`, because a process takes a second to start."""
AT_THE_SAME_TIME = "jobs that are enqueued and claimed at the same time are each claimed once"
"""Takes seconds on some engines: `make test` tries it on PostgreSQL, and with the default options."""
SLOW = "an operation that takes long loses, repeats and gives away no job"
LATE = "a worker whose claim has expired takes nothing from the next one"
ENDED = "the end of a connection within an operation loses and repeats no job"
BROKEN = {
    ("fcfs", AT_THE_SAME_TIME),
    ("fcfs", SLOW),
    *((kind, LATE) for kind in ("laravel", "laravel_optimistic", "laravel_redis", "redis_batches")),
    ("redis_batches", ENDED),
}
"""Published queues break these: a claim in two steps, which two workers can make at once; a failure that releases the job, whoever has it by then; a mover
that has pushed a batch and not yet committed that it did."""
OVERTAKEN = "no job is overtaken for ever"
LATER = "jobs are claimed in their order also later, and after a vacuum"
LAST_ATTEMPT = "a job without an attempt left is not offered again"
TAKE_SECONDS = {
    SLOW: ("que", "skip_locked"),
    ENDED: ("batch_claim", "skip_locked"),
    LATE: ("status_column",),
    OVERTAKEN: ("shared_table",),
    LATER: ("rotating_tables", "skip_locked"),
    LAST_ATTEMPT: ("laravel",),
}
"""Where `make test` tries these."""


def trials() -> list[Any]:
    """Return each promise with each queue that gives it, once for each engine that it runs on, and again with each of `WITH_OPTIONS`."""
    return [
        pytest.param(
            promise,
            (kind, engine, options),
            marks=pytest.mark.long if takes_long(promise, kind, engine, options) else (),
            id="-".join([promise.name, kind, engine, *(f"{key}={value}" for key, value in options.items())]),
        )
        for promise in PROMISES
        for kind, queue in find_queues().items()
        for engine in sorted(queue.engines)
        for options in ({}, *WITH_OPTIONS.get(kind, []))
        if promise.find_obstacle(queue) is None and (kind, promise.name) not in BROKEN
    ]


def takes_long(promise: QueuePromise, kind: str, engine: str, options: Mapping[str, object]) -> bool:
    """Whether the promise is tried by `make test-long` alone."""
    if options and promise.name not in OF_OPTIONS:
        return True
    if promise.name == AT_THE_SAME_TIME:
        return engine != "postgres"
    if promise.name in TAKE_SECONDS:
        return kind not in TAKE_SECONDS[promise.name] or engine != "postgres"
    return promise.name == STARTS_A_PROCESS and (kind not in WITH_A_PROCESS or bool(options))


@pytest.fixture
def open_one(request: pytest.FixtureRequest, promise: QueuePromise, empty_on: EmptyOn) -> Iterator[OpenQueue]:
    """Opens the queue under test, installed on an empty database."""
    kind, engine, always = request.param
    endpoint = empty_on(engine)
    second = find_queues()[kind].second_engine
    if second is not None:
        endpoint = endpoint.model_copy(update={"second": empty_on(second)})
    opener = OpenQueue(kind, always, endpoint)
    opener.require_options(promise)
    opener().install()
    yield opener
    opener.close()


@pytest.mark.parametrize(("promise", "open_one"), trials(), indirect=["open_one"])
def test_a_queue_keeps_its_promise(promise: QueuePromise, open_one: OpenQueue) -> None:
    promise.check(open_one)
