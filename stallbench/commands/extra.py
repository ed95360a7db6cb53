"""The extras, which ``pip install stallbench`` alone leaves out: ``bench``, what runs and their reports need, and ``mcp``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperCommand

from stallbench import IS_WHEEL
from stallbench.errors import NotCarriedOutError

_MODULES = ("pyspark", "pandas", "pyarrow", "psutil")
"""Modules of the extra ``bench`` that are in no light installation by chance all at once."""


class BenchCommand(TyperCommand):
    """A command that needs the extra ``bench``, and says so before it does anything. Its help needs nothing."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Execute the command; raises `NotCarriedOutError` without the extra."""
        if not has_bench():
            raise NotCarriedOutError(describe_missing_extra(f"stallbench {ctx.info_name}"))
        return super().invoke(ctx)


def has_bench() -> bool:
    """Whether the extra ``bench`` is installed."""
    return all(find_spec(name) is not None for name in _MODULES)


def describe_missing_extra(what: str) -> str:
    """Return the message for ``what``, which needs the extra ``bench``, with the line that installs it."""
    return (
        f"{what} needs packages that a light installation does not have (Spark, pandas and others); install them by: {name_extra('bench')}\n"
        "Without them there are: stallbench observe, list, show, validate, schema, init, and report of a run whose page exists."
    )


def require_mcp(what: str) -> None:
    """Raise `NotCarriedOutError`, with the line that installs the extra ``mcp``, if ``what`` cannot load it."""
    try:
        import_module("mcp.server.mcpserver")  # which no version before 2 has
    except ImportError:
        raise NotCarriedOutError(
            f"{what} needs the package mcp, version 2, which a light installation does not have; install it by: {name_extra('mcp')}"
        ) from None


def name_extra(extra: str) -> str:
    """Return the line that installs an extra."""
    return f"pip install 'stallbench[{extra}]'" if IS_WHEEL else "make setup"
