"""Finds plug-ins: every file of a package, and every installed distribution's entry points.

To add a queue, fault, collector, check, longrunner or kind of maintenance, add a file to its package. An installed package declares it as an entry point
in the group of its kind (see `PluginGroup`), for example in its ``pyproject.toml``::

    [project.entry-points."stallbench.faults"]
    lunar_eclipse = "my_package.faults:LunarEclipse"
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from enum import StrEnum
from importlib import metadata
from types import ModuleType
from typing import Any, TypeVar, cast

from stallbench.errors import BadInputError


class PluginGroup(StrEnum):
    """The group of the entry points of each kind of plug-in."""

    QUEUES = "stallbench.queues"
    FAULTS = "stallbench.faults"
    COLLECTORS = "stallbench.collectors"
    CHECKS = "stallbench.checks"
    LONGRUNNERS = "stallbench.longrunners"
    MAINTENANCE = "stallbench.maintenance"


PluginT = TypeVar("PluginT")

LIBRARY_PREFIX = "library:"
"""What the kind of a queue begins with that is a library: ``library:procrastinate``, or ``library:path/to/folder``."""


def discover(
    package: ModuleType, base: type[PluginT], group: PluginGroup, *, is_plugin: Callable[[type[PluginT]], bool] | None = None
) -> list[type[PluginT]]:
    """Return every concrete subclass of ``base`` in the modules of ``package``, then those of the entry points of ``group``.

    Modules are loaded in alphabetical order; ``__main__`` is not loaded. A class counts in the module that defines it.
    ``is_plugin``: what else makes a class one, for bases whose intermediate classes are not abstract.
    Raises `BadInputError` if an entry point cannot be loaded or is no subclass of ``base``.
    """
    found = discover_files(package, base)
    found += [
        _load(entry_point, base, group) for entry_point in sorted(metadata.entry_points(group=group), key=lambda one: one.name)
    ]
    return [each for each in found if is_plugin is None or is_plugin(each)]


def discover_files(package: ModuleType, base: type[PluginT]) -> list[type[PluginT]]:
    """Return the same of the modules of ``package`` alone."""
    names = [info.name for info in pkgutil.iter_modules(package.__path__) if info.name != "__main__"]
    return [member for name in names for member in _list_concrete(importlib.import_module(f"{package.__name__}.{name}"), base)]


def discover_in(package: ModuleType, name: str, base: type[PluginT]) -> list[type[PluginT]]:
    """Return the concrete subclasses of ``base`` that one module of ``package`` defines, without loading the others; none if it is not there."""
    if not any(info.name == name for info in pkgutil.iter_modules(package.__path__)):
        return []
    return _list_concrete(importlib.import_module(f"{package.__name__}.{name}"), base)


def _list_concrete(module: ModuleType, base: type[PluginT]) -> list[type[PluginT]]:
    members: list[tuple[str, Any]] = inspect.getmembers(module, inspect.isclass)
    return [member for _, member in members if member.__module__ == module.__name__ and _is_concrete(member, base)]


def _is_concrete(member: type[Any], base: type[Any]) -> bool:
    return issubclass(member, base) and member is not base and not inspect.isabstract(member)


def _load(entry_point: metadata.EntryPoint, base: type[PluginT], group: PluginGroup) -> type[PluginT]:
    where = f"entry point {entry_point.name} = {entry_point.value!r} of group {group}"
    try:
        loaded: Any = entry_point.load()
    except (Exception, SystemExit) as error:
        raise BadInputError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (inspect.isclass(loaded) and _is_concrete(loaded, base)):
        raise BadInputError(f"{where} is not a concrete subclass of {base.__module__}.{base.__name__}")
    return cast("type[PluginT]", loaded)
