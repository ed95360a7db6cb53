"""The engines that a queue can use, a folder each: all that the bench knows of an engine is in it, and `Engine` says what that is.

A folder is an engine's if it has a file ``engine.py``, whose ``ENGINE`` describes it; no list in the code names the engines. The folder ``innodb`` has
what MariaDB and MySQL share. The files beside the folders say what is asked of every engine, and have what all share.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stallbench.engines.driver import Driver
from stallbench.engines.engine import DatabaseKey, Engine
from stallbench.visible_text import make_visible

__all__ = [
    "DEFAULT_ENGINE",
    "ENGINES",
    "SERVER_ENGINES",
    "SESSION_ENGINES",
    "Driver",
    "Engine",
    "EngineName",
    "describe_error",
    "driver_of",
    "engines_with",
    "list_schemes",
    "loaded_errors",
]


def _find_engines() -> Mapping[str, Engine]:
    names = [path.parent.name for path in Path(__file__).parent.glob("*/engine.py")]
    found: list[Engine] = [import_module(f"{__name__}.{name}.engine").ENGINE for name in names]
    return {engine.name: engine for engine in sorted(found, key=lambda engine: (not engine.is_default, engine.name))}


ENGINES: Mapping[str, Engine] = _find_engines()
"""By name: the default one, and the others in alphabetical order."""

DEFAULT_ENGINE = next(iter(ENGINES))
"""Of a scenario that names none."""

if TYPE_CHECKING:
    EngineName = str
else:
    EngineName = Literal[tuple(ENGINES)]
"""The name of an engine, for models that are validated."""

SESSION_ENGINES: frozenset[str] = frozenset(name for name, engine in ENGINES.items() if engine.has_sessions)
"""Those whose servers know the sessions of their clients."""

SERVER_ENGINES: frozenset[str] = frozenset(name for name, engine in ENGINES.items() if engine.has_server)
"""Those of which there is a server, that can end and be cut off from its clients."""


def engines_with(key: DatabaseKey) -> frozenset[str]:
    """Return those that the key of the section ``[database]`` is for."""
    return frozenset(name for name, engine in ENGINES.items() if key in engine.database_keys)


def list_schemes() -> str:
    """Return the usual schemes of addresses, as a sentence lists what is allowed."""
    *others, last = (engine.schemes[0] for engine in ENGINES.values() if engine.schemes)
    return f"{', '.join(others)} or {last}"


@cache
def driver_of(engine: str) -> Driver:
    """Return the driver of one of the `ENGINES`."""
    return ENGINES[engine].driver()


def loaded_errors() -> tuple[type[Exception], ...]:
    """Return the errors of all loaded drivers, for an ``except`` that does not know the engine."""
    return tuple(error for driver in _list_loaded() for error in driver.errors)


def describe_error(error: Exception) -> str:
    """Return an error in one line; one of `loaded_errors` as its driver describes it, because the text of some libraries is a raw tuple."""
    driver = next((driver for driver in _list_loaded() if isinstance(error, driver.errors)), None)
    return driver.describe(error) if driver else make_visible(str(error).strip()) or type(error).__name__


def _list_loaded() -> list[Driver]:
    modules = [module for name, module in sys.modules.items() if name.startswith(f"{__name__}.") and name.endswith(".driver")]
    return [module.DRIVER for module in modules if hasattr(module, "DRIVER")]
