"""What looks after a server while the load goes on, as cron or a daemon does in production; one kind a file.

Each kind is a mitigation: something that is proposed against what the scenarios show. Dropping a file in is all it takes to add one.
``python -m stallbench.maintenance`` is the process that does it.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from stallbench.discovery import discover
from stallbench.maintenance.task import Task, TaskDocument, TaskOptions

__all__ = ["Task", "TaskDocument", "TaskOptions", "find_maintenance_kinds"]


@cache
def find_maintenance_kinds() -> dict[str, type[Task[Any]]]:
    """Return every kind in this folder by its name, in alphabetical order."""
    found = discover(sys.modules[__name__], Task, "stallbench.maintenance", is_plugin=lambda each: "kind" in vars(each))
    return {each.kind: each for each in sorted(found, key=lambda each: each.kind)}
