"""Processes that hold a database's horizon, one file for each kind. Start one with ``python -m longrunners``.

To add a kind, add a file here with a subclass of `Longrunner`.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from longrunners.longrunner import Longrunner
from stallbench.discovery import PluginGroup, discover, discover_in
from stallbench.engines import DEFAULT_ENGINE

__all__ = ["Longrunner", "find_longrunner", "find_longrunners"]


@cache
def find_longrunners(engine: str = DEFAULT_ENGINE) -> dict[str, type[Longrunner[Any]]]:
    """Return every longrunner that runs on ``engine``, by its kind, in alphabetical order."""
    kinds = discover(sys.modules[__name__], Longrunner, PluginGroup.LONGRUNNERS)
    return {kind.kind: kind for kind in sorted(kinds, key=lambda each: each.kind) if engine in kind.engines}


def find_longrunner(kind: str, engine: str) -> type[Longrunner[Any]] | None:
    """Return the longrunner of that kind that runs on ``engine``, or none.

    One whose file has the name of its kind is found without loading the others, which takes a fifth of the processor time of its start.
    """
    for found in discover_in(sys.modules[__name__], kind, Longrunner):
        if found.kind == kind and engine in found.engines:
            return found
    return find_longrunners(engine).get(kind)
