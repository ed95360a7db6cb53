"""The systems under test. A queue is one file here (and its ``.sql``); dropping the file in is all it takes to add it.

Each module defines one subclass of `Queue` and nothing is registered by hand: `find_queues` looks through the folder.
This room imports no other room of the bench, so that a queue can be read, and trusted, on its own.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any

from stallbench.queues.elsewhere import NoQueueError, is_elsewhere, load_queue
from stallbench.queues.queue import (
    Backlog,
    Claim,
    ClaimExpiredError,
    Condition,
    LostRaceError,
    NewJob,
    Promise,
    Queue,
    QueueOptions,
    RefusedError,
)

__all__ = [
    "Backlog",
    "Claim",
    "ClaimExpiredError",
    "Condition",
    "LostRaceError",
    "NewJob",
    "NoQueueError",
    "Promise",
    "Queue",
    "QueueOptions",
    "RefusedError",
    "find_queue",
    "find_queues",
]


@cache
def find_queues() -> dict[str, type[Queue[Any]]]:
    """Return every queue in this folder by its kind, in alphabetical order."""
    found: dict[str, type[Queue[Any]]] = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, Queue) and not inspect.isabstract(member) and member.__module__ == module.__name__:
                found[member.kind] = member
    return dict(sorted(found.items()))


def find_queue(kind: str) -> type[Queue[Any]]:
    """Return the queue that a scenario names: one of `find_queues` by its kind, or a class in a file, ``path/to/file.py:ClassName``.

    Raises `NoQueueError`.
    """
    if is_elsewhere(kind):
        return load_queue(kind)
    try:
        return find_queues()[kind]
    except KeyError:
        raise NoQueueError(f"is none of {', '.join(find_queues())}, nor path/to/file.py:ClassName") from None
