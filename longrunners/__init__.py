"""Processes that hold the database back on purpose, one kind a file. Start one with ``python -m longrunners``.

A kind is added by adding a file here with a subclass of `Longrunner`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any

from longrunners.longrunner import Longrunner

__all__ = ["Longrunner", "find_longrunners"]


@cache
def find_longrunners(engine: str = "postgres") -> dict[str, type[Longrunner[Any]]]:
    """Return every kind in this folder that runs on ``engine`` by its name, in alphabetical order."""
    found: dict[str, type[Longrunner[Any]]] = {}
    for module_info in pkgutil.iter_modules(__path__):
        if module_info.name == "__main__":
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for _, member in inspect.getmembers(module, inspect.isclass):
            if member.__module__ != module.__name__ or not issubclass(member, Longrunner) or inspect.isabstract(member):
                continue
            if engine in member.engines:
                found[member.kind] = member
    return dict(sorted(found.items()))
