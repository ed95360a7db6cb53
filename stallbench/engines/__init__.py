"""The engines that a queue can use: what a scenario may request from each (`traits`), and how to connect to it (one file each).

A driver is loaded when its engine is used, so that a worker on PostgreSQL does not load the libraries of other engines.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache

from stallbench.engines.driver import Driver
from stallbench.engines.traits import ENGINES, SERVER_ENGINES, Engine, EngineTraits
from stallbench.visible_text import make_visible

__all__ = ["ENGINES", "SERVER_ENGINES", "Driver", "Engine", "EngineTraits", "describe_error", "driver_of", "loaded_errors"]


@cache
def driver_of(engine: str) -> Driver:
    """Return the driver of one of the `ENGINES`."""
    driver: Driver = importlib.import_module(f"{__name__}.{engine}").DRIVER
    return driver


def loaded_errors() -> tuple[type[Exception], ...]:
    """Return the errors of all loaded drivers, for an ``except`` that does not know the engine."""
    return tuple(error for driver in _list_loaded() for error in driver.errors)


def describe_error(error: Exception) -> str:
    """Return an error in one line; one of `loaded_errors` as its driver describes it, because the text of some libraries is a raw tuple."""
    driver = next((driver for driver in _list_loaded() if isinstance(error, driver.errors)), None)
    return driver.describe(error) if driver else make_visible(str(error).strip()) or type(error).__name__


def _list_loaded() -> list[Driver]:
    modules = [module for name, module in sys.modules.items() if name.startswith(f"{__name__}.")]
    return [module.DRIVER for module in modules if hasattr(module, "DRIVER")]
