"""Opens and drives the queues that are to withstand a held horizon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stallbench.queues import Claim, NewJob, Queue
from stallbench.queues.queue_client import open_queue
from tests.integration.conftest import EmptyOn
from tests.waiting import wait_for

Open = Callable[..., Queue[Any]]
JOBS = [NewJob(payload=f'{{"n":{n}}}') for n in range(5)]
PATIENCE_S = 60.0


@pytest.fixture
def open_(empty_on: EmptyOn) -> Iterator[Open]:
    """Opens a queue of a kind with options, each on a connection of its own to one empty database; the first one installs it."""
    endpoint = empty_on("postgres")
    opened: list[Queue[Any]] = []

    def open_another(kind: str, **options: object) -> Queue[Any]:
        opened.append(open_queue(kind, options, endpoint, f"test-{len(opened)}"))
        if len(opened) == 1:
            opened[0].install()
        return opened[-1]

    yield open_another
    for queue in opened:
        queue.connection.close()


def claim_one(queue: Queue[Any]) -> Claim:
    (claim,) = queue.claim()
    return claim


def claim_patiently(queue: Queue[Any]) -> Claim:
    return wait_for(queue.claim, "a job to claim", PATIENCE_S)[0]


def end_session(dying: Queue[Any], watcher: Queue[Any]) -> None:
    """Close a worker's connection, and wait until all its locks are gone: the server frees them one by one, and then the session."""
    session = (dying.connection.info.backend_pid,)
    dying.connection.close()
    query = "SELECT FROM pg_stat_activity WHERE pid = %s"
    wait_for(lambda: not watcher.connection.execute(query, session).fetchall(), "the end of its session", PATIENCE_S)
