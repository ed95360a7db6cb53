"""Finds the server starter of each engine."""

from __future__ import annotations

from functools import cache

from stallbench import servers
from stallbench.discovery import PluginGroup, discover
from stallbench.servers.starter import Starter


@cache
def find_starters() -> dict[str, type[Starter]]:
    """Return the starters by engine."""
    found = discover(servers, Starter, PluginGroup.STARTERS)
    return {engine: starter for starter in found for engine in starter.engines}
