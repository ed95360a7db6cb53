"""Finds who starts the servers of an engine: each file of this room may hold one, and is found by being there."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from stallbench import servers
from stallbench.servers.starter import Starter


@cache
def find_starters() -> dict[str, type[Starter]]:
    """Return the starters by engine."""
    found: dict[str, type[Starter]] = {}
    for module_info in pkgutil.iter_modules(servers.__path__):
        if not module_info.name.endswith("_starter"):
            continue
        module = importlib.import_module(f"{servers.__name__}.{module_info.name}")
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, Starter) and member.__module__ == module.__name__:
                found |= dict.fromkeys(member.engines, member)
    return found
