"""What is sampled while a run goes on: one subject a file, all in a process of their own (``python -m stallbench.collectors``).

A collector is added by adding a file here with a subclass of `Collector`; `find_collectors` looks through the folder.
"""

from __future__ import annotations

import sys
from functools import cache

from stallbench.collectors.collector import Collector
from stallbench.discovery import discover

__all__ = ["Collector", "find_collectors"]


@cache
def find_collectors() -> dict[str, type[Collector]]:
    """Return every collector in this folder by its name, in alphabetical order."""
    found = discover(sys.modules[__name__], Collector, "stallbench.collectors")
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
