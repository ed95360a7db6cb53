"""A chaos and degradation test bench for job queues that live in a database."""

from pathlib import Path

__version__ = "1.0.0"

_PACKAGE = Path(__file__).resolve().parent
_BUNDLED = _PACKAGE / "bundled"
"""Only a wheel has it; ``setup.py`` makes it."""

IS_WHEEL = _BUNDLED.is_dir()
"""Whether the bench was installed from a wheel. Then it writes nothing beside its own files, and is set up by `stallbench setup`."""

PROJECT = _BUNDLED if IS_WHEEL else _PACKAGE.parent
"""The folder with what the bench consists of beside this package: scenarios, roles, libraries, templates, dashboards, locks.

In a clone it is the root; there runs and components are kept below it, too.
"""
