"""Opens the queue under test on a connection of its own, the same way for every process of the bench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stallbench.drivers import driver_of
from stallbench.queues import Queue, find_queue
from stallbench.records.endpoint import Endpoint


def open_queue(kind: str, options: Mapping[str, object], endpoint: Endpoint, name: str) -> Queue[Any]:
    """Connect as the process ``name`` and return the queue of that kind; kind and options were validated with the scenario."""
    queue_type = find_queue(kind)
    driver = driver_of(endpoint.engine)
    queue = queue_type(driver.connect(endpoint, name), queue_type.options_type.model_validate(options))
    if queue.second_engine is not None:
        assert endpoint.second is not None, f"{kind} needs another server, {queue.second_engine}, beside {endpoint.engine}"
        try:
            queue.attach(driver_of(queue.second_engine).connect(endpoint.second, name))
        except BaseException:
            driver.close(queue.connection)
            raise
    return queue


def close_queue(queue: Queue[Any], engine: str) -> None:
    """Close its connections, whatever state they are in; ``engine``: its own server's."""
    driver_of(engine).close(queue.connection)
    if queue.second_engine is not None:
        driver_of(queue.second_engine).close(queue.second)


@contextmanager
def opened_queue(kind: str, options: Mapping[str, object], endpoint: Endpoint, name: str) -> Iterator[Queue[Any]]:
    """Open the queue as `open_queue` does, for as long as the block lasts."""
    queue = open_queue(kind, options, endpoint, name)
    try:
        yield queue
    finally:
        close_queue(queue, endpoint.engine)
