"""Maintenance of a server while the load runs, as cron or a daemon does it in production; one file for each kind.

Each kind mitigates a problem that the scenarios show. To add a kind, add a file with a subclass of `Task`; no list is edited.
``python -m stallbench.injection.maintenance`` is the process that runs a task.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from stallbench.discovery import PluginGroup, discover
from stallbench.injection.maintenance.task import Task, TaskDocument, TaskOptions

__all__ = ["Task", "TaskDocument", "TaskOptions", "find_maintenance_kinds"]


@cache
def find_maintenance_kinds() -> dict[str, type[Task[Any]]]:
    """Return every kind in this folder by its name, in alphabetical order."""
    found = discover(sys.modules[__name__], Task, PluginGroup.MAINTENANCE, is_plugin=lambda each: "kind" in vars(each))
    return {each.kind: each for each in sorted(found, key=lambda each: each.kind)}
