"""What looks after a server while the load goes on, as cron or a daemon does in production; one kind a file.

Each kind is a mitigation: something that is proposed against what the scenarios show. Dropping a file in is all it takes to add one.
``python -m stallbench.maintenance`` is the process that does it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any

from stallbench.maintenance.task import Task, TaskDocument, TaskOptions

__all__ = ["Task", "TaskDocument", "TaskOptions", "find_maintenance_kinds"]


@cache
def find_maintenance_kinds() -> dict[str, type[Task[Any]]]:
    """Return every kind in this folder by its name, in alphabetical order."""
    found: dict[str, type[Task[Any]]] = {}
    for module_info in pkgutil.iter_modules(__path__):
        if module_info.name == "__main__":
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, Task) and "kind" in vars(member) and member.__module__ == module.__name__:
                found[member.kind] = member
    return dict(sorted(found.items()))
