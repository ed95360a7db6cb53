"""What is special about `unique_jobs`: what becomes of a second job with the same key; test_queues.py tests what every queue must do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from stallbench.queues import NewJob, Queue, RefusedError
from stallbench.queues.queue_client import close_queue, open_queue
from tests.integration.conftest import EmptyOn
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OpenQueue = Callable[..., Queue[Any]]
JOB = NewJob(payload="{}", key="7")


@pytest.fixture
def open_unique(empty_on: EmptyOn) -> Iterator[OpenQueue]:
    """Opens the queue with the same options on another connection at each call."""
    endpoint = empty_on("postgres")
    opened: list[Queue[Any]] = []

    def open_another(**options: object) -> Queue[Any]:
        opened.append(open_queue("unique_jobs", options, endpoint, f"test-{len(opened)}"))
        return opened[-1]

    yield open_another
    for queue in opened:
        close_queue(queue, "postgres")


def enqueue_while_another_transaction_has_not_committed(open_unique: OpenQueue, unique: str) -> Exception | None:
    """Let one producer insert a job and stay in its transaction, and a second one enqueue the same; returns the second's error."""
    first, second, watch = (open_unique(unique=unique) for _ in range(3))
    first.install()
    first.connection.execute("BEGIN")
    if unique == "advisory_lock":
        first.connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('7', 0))")
    first.connection.execute("INSERT INTO status_column_jobs (unique_key, payload) VALUES ('7', '{}')")
    errors: list[Exception] = []

    def enqueue() -> None:
        try:
            second.enqueue([JOB])
        except (RefusedError, psycopg.Error) as error:
            errors.append(error)

    thread = threading.Thread(target=enqueue)
    thread.start()
    if unique != "check":
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        wait_for(lambda: watch.connection.execute(waits).fetchone(), "a producer that waits for the other one")
        first.connection.execute("COMMIT")
        thread.join()
    else:
        thread.join()
        first.connection.execute("COMMIT")
    return errors[0] if errors else None


def test_a_check_does_not_see_what_another_transaction_has_not_committed(open_unique: OpenQueue) -> None:
    assert enqueue_while_another_transaction_has_not_committed(open_unique, "check") is None


@pytest.mark.parametrize("unique", ["on_conflict", "advisory_lock"])
def test_a_unique_index_or_a_lock_waits_for_the_other_transaction(open_unique: OpenQueue, unique: str) -> None:
    assert isinstance(enqueue_while_another_transaction_has_not_committed(open_unique, unique), RefusedError)


def test_a_unique_index_without_on_conflict_raises_an_error(open_unique: OpenQueue) -> None:
    error = enqueue_while_another_transaction_has_not_committed(open_unique, "error")
    assert isinstance(error, psycopg.errors.UniqueViolation)


@pytest.mark.parametrize("unique", ["check", "advisory_lock", "on_conflict"])
def test_a_key_is_used_once_and_jobs_without_a_key_are_not_unique(open_unique: OpenQueue, unique: str) -> None:
    queue = open_unique(unique=unique)
    queue.install()
    (job_id,) = queue.enqueue([JOB])
    assert str(queue.preconditions[job_id]) == "key:7"
    with pytest.raises(RefusedError, match="there is a job with key 7"):
        queue.enqueue([NewJob(payload="{}", key="8"), JOB])
    assert len(queue.enqueue([NewJob(payload="{}"), NewJob(payload="{}")])) == 2
    assert queue.depth() == 3


def test_after_a_conflict_the_connection_can_be_used_again(open_unique: OpenQueue) -> None:
    queue = open_unique(unique="error")
    queue.install()
    queue.enqueue([JOB])
    with pytest.raises(psycopg.errors.UniqueViolation) as raised:
        queue.enqueue([JOB])
    assert queue.recover(raised.value)
    queue.enqueue([NewJob(payload="{}", key="8")])
    assert queue.depth() == 2
