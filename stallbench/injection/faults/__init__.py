"""The faults that the bench injects, one file for each kind. To add a kind, add a file with a subclass of `Fault`; no list is edited.

A module may define several similar kinds.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from stallbench.discovery import PluginGroup, discover
from stallbench.injection.faults.fault import Fault, FaultOptions, FaultPlace, FaultTarget

__all__ = ["Fault", "FaultOptions", "FaultPlace", "FaultTarget", "find_faults"]


@cache
def find_faults() -> dict[str, type[Fault[Any]]]:
    """Return every fault in this folder by its kind, in alphabetical order."""
    found = discover(sys.modules[__name__], Fault, PluginGroup.FAULTS, is_plugin=lambda each: "kind" in vars(each))
    return {each.kind: each for each in sorted(found, key=lambda each: each.kind)}
