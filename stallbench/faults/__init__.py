"""What goes wrong on purpose. A fault is one file here; dropping the file in is all it takes to add it.

Each module defines one subclass of `InjectedFault` or several that differ in little, and nothing is registered by hand.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any

from stallbench.faults.injected_fault import FaultOptions, Ground, InjectedFault, Place

__all__ = ["FaultOptions", "Ground", "InjectedFault", "Place", "find_fault_kinds"]


@cache
def find_fault_kinds() -> dict[str, type[InjectedFault[Any]]]:
    """Return every fault in this folder by its kind, in alphabetical order."""
    found: dict[str, type[InjectedFault[Any]]] = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, InjectedFault) and "kind" in vars(member) and member.__module__ == module.__name__:
                found[member.kind] = member
    return dict(sorted(found.items()))
