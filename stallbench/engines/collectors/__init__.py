"""Samples servers and host during a run: one file for each subject. All collectors share one process (``python -m stallbench.engines.collectors``).

To add a collector, add a file here with a subclass of `Collector`; `find_collectors` finds it.
"""

from __future__ import annotations

import sys
from functools import cache

from stallbench.discovery import PluginGroup, discover
from stallbench.engines.collectors.collector import Collector

__all__ = ["Collector", "collectors_for", "find_collectors"]


@cache
def find_collectors() -> dict[str, type[Collector]]:
    """Return every collector by its name, in alphabetical order."""
    found = discover(sys.modules[__name__], Collector, PluginGroup.COLLECTORS)
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def collectors_for(engine: str) -> dict[str, type[Collector]]:
    """Return the collectors that sample while the primary has ``engine``, by name."""
    return {name: kind for name, kind in find_collectors().items() if kind.engines is None or engine in kind.engines}
