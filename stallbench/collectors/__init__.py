"""What is sampled while a run goes on: one subject a file, all in a process of their own (``python -m stallbench.collectors``).

A collector is added by adding a file here with a subclass of `Collector`; `find_collectors` looks through the folder.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from stallbench.collectors.collector import Collector

__all__ = ["Collector", "find_collectors"]


@cache
def find_collectors() -> dict[str, type[Collector]]:
    """Return every collector in this folder by its name, in alphabetical order."""
    found: dict[str, type[Collector]] = {}
    for module_info in pkgutil.iter_modules(__path__):
        if module_info.name == "__main__":
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, Collector) and not inspect.isabstract(member) and member.__module__ == module.__name__:
                found[member.name] = member
    return dict(sorted(found.items()))
