"""Queues with one known fault each, so that the bench itself can be tested: does its verdict see the fault, and name it rightly?

Each file has one class: a sound queue with a few lines changed, and what says of it `SeededDefect`. It is found by being here.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from tests.defective_queues.seeded_defect import SeededDefect

__all__ = ["SeededDefect", "find_defects"]


def find_defects() -> dict[str, type[SeededDefect]]:
    """Return every seeded defect by the name of its file."""
    found = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, SeededDefect) and member is not SeededDefect and member.__module__ == module.__name__:
                found[module_info.name] = member
    return found
