"""The extra ``bench``: what runs and their reports need, and ``pip install stallbench`` alone leaves out."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperCommand

from stallbench import IS_WHEEL
from stallbench.errors import NotCarriedOutError

_MODULES = ("pyspark", "pandas", "pyarrow", "psutil")
"""Modules of the extra that are in no light installation by chance all at once."""
_INSTALL = "pip install 'stallbench[bench]'" if IS_WHEEL else "make setup"


class BenchCommand(TyperCommand):
    """A command that needs the extra, and says so before it does anything. Its help needs nothing."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Execute the command; raises `NotCarriedOutError` without the extra."""
        if not has_bench():
            raise NotCarriedOutError(describe_missing_extra(f"stallbench {ctx.info_name}"))
        return super().invoke(ctx)


def has_bench() -> bool:
    """Whether the extra is installed."""
    return all(find_spec(name) is not None for name in _MODULES)


def describe_missing_extra(what: str) -> str:
    """Return the message for ``what``, which needs the extra, with the line that installs it."""
    return (
        f"{what} needs packages that a light installation does not have (Spark, pandas and others); install them by: {_INSTALL}\n"
        "Without them there are: stallbench observe, list, show, validate, schema, and report of a run whose page exists."
    )
