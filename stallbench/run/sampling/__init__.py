"""Samples servers, queue and host during a run, in one process for all collectors (``python -m stallbench.run.sampling``).

What is read from a server or the host is in `stallbench.engines.collectors`, a file for each subject; what the queue under test is asked, in `queue`.
"""

from __future__ import annotations

import sys
from functools import cache

from stallbench.discovery import PluginGroup, discover, discover_in
from stallbench.engines import collectors
from stallbench.engines.collectors.collector import Collector

__all__ = ["collectors_for", "find_collectors"]


@cache
def find_collectors() -> dict[str, type[Collector]]:
    """Return every collector by its name, in alphabetical order."""
    found = discover(collectors, Collector, PluginGroup.COLLECTORS) + discover_in(sys.modules[__name__], "queue", Collector)
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def collectors_for(engine: str) -> dict[str, type[Collector]]:
    """Return the collectors that sample while the primary has ``engine``, by name."""
    return {name: kind for name, kind in find_collectors().items() if kind.engines is None or engine in kind.engines}
