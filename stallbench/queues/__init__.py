"""The queue algorithms under test. To add a queue, add one file here (and its ``.sql``).

Each module defines one subclass of `Queue`; `find_queues` finds it.
A queue here imports no other part of the bench, so it can be read without knowing the rest. `library_queue` is the exception: it lets a published
library be used as a queue.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, Literal

from stallbench.discovery import LIBRARY_PREFIX, discover, discover_in
from stallbench.queues.queue import (
    DEFAULT_QUEUE,
    Backlog,
    Claim,
    ClaimExpiredError,
    LostRaceError,
    NewJob,
    Precondition,
    Promise,
    Queue,
    QueueOptions,
    RefusedError,
)
from stallbench.queues.user_queue import NoQueueError, is_user_queue, load_queue

__all__ = [
    "DEFAULT_QUEUE",
    "Backlog",
    "Claim",
    "ClaimExpiredError",
    "LostRaceError",
    "NewJob",
    "NoQueueError",
    "Precondition",
    "Promise",
    "Queue",
    "QueueOptions",
    "RefusedError",
    "find_queue",
    "find_queues",
    "list_queues_using",
]


@cache
def find_queues() -> dict[str, type[Queue[Any]]]:
    """Return every queue by its kind, in alphabetical order."""
    found = discover(sys.modules[__name__], Queue, "stallbench.queues", is_plugin=lambda queue: hasattr(queue, "kind"))
    return {each.kind: each for each in sorted(found, key=lambda each: each.kind)}


@cache
def find_queue(kind: str) -> type[Queue[Any]]:
    """Return the queue that a scenario names: one of `find_queues` by its kind, a library, or a class in a file, ``path/to/file.py:ClassName``.

    A queue whose file has the name of its kind is found without loading the others, which takes longer than starting a worker otherwise does.
    Raises `NoQueueError`.
    """
    if kind.startswith(LIBRARY_PREFIX):
        return _load_library(kind)
    if is_user_queue(kind):
        return load_queue(kind)
    for queue in discover_in(sys.modules[__name__], kind, Queue):
        if queue.kind == kind:
            return queue
    try:
        return find_queues()[kind]
    except KeyError:
        raise NoQueueError(f"is none of {', '.join(find_queues())}, nor path/to/file.py:ClassName") from None


def list_queues_using(field: Literal["queue", "key"]) -> list[str]:
    """Return the kinds of the queues whose jobs have this field of `NewJob`."""
    return [kind for kind, queue in find_queues().items() if field in queue.used_job_fields]


def _load_library(kind: str) -> type[Queue[Any]]:
    from stallbench.libraries import LibraryError
    from stallbench.queues.library_queue import load_library_queue

    try:
        return load_library_queue(kind)
    except LibraryError as error:
        raise NoQueueError(str(error)) from None
