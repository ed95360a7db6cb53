"""Samples servers, queue and host during a run, in one process for all collectors (``python -m stallbench.run.sampling``).

What is read from a server is in the folder of its engine, and what is read from the host in `stallbench.engines.collectors`, a file for each subject;
what the queue under test is asked, in `queue`.
"""

from __future__ import annotations

import sys
from functools import cache

from stallbench.discovery import PluginGroup, discover, discover_files, discover_in
from stallbench.engines import ENGINES, collectors
from stallbench.engines.collectors.collector import Collector

__all__ = ["collectors_for", "find_collectors"]


@cache
def find_collectors() -> dict[str, type[Collector]]:
    """Return every collector by its name, in alphabetical order."""
    found = [each for engine in ENGINES for each in collectors_for(engine).values()]
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


@cache
def collectors_for(engine: str) -> dict[str, type[Collector]]:
    """Return the collectors that sample while the primary has ``engine``, by name; those of other engines are not loaded."""
    everywhere = discover(collectors, Collector, PluginGroup.COLLECTORS) + discover_in(sys.modules[__name__], "queue", Collector)
    found = [each for each in everywhere if each.engines is None or engine in each.engines]
    of_engine = ENGINES[engine].collectors()
    if of_engine is not None:
        found += discover_files(of_engine, Collector)
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
