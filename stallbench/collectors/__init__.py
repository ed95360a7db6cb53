"""Samples servers and host during a run: one file for each subject. All collectors share one process (``python -m stallbench.collectors``).

To add a collector, add a file here with a subclass of `Collector`; `find_collectors` finds it.
"""

from __future__ import annotations

import sys
from functools import cache

from stallbench.collectors.collector import Collector
from stallbench.discovery import discover

__all__ = ["Collector", "find_collectors"]


@cache
def find_collectors() -> dict[str, type[Collector]]:
    """Return every collector by its name, in alphabetical order."""
    found = discover(sys.modules[__name__], Collector, "stallbench.collectors")
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
