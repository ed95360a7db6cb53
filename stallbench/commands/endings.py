"""The last steps of commands: make the report from the records, print the result, and exit with its code."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

from stallbench.errors import (
    EXIT_FAIL,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    NotCarriedOutError,
)
from stallbench.pipeline.spark_options import SparkOptions
from stallbench.run.folder import RunFolder


def conclude_and_exit(folder: Path, spark: SparkOptions | None = None) -> NoReturn:
    """Make the tables, verdict and report of a run, print the verdict, and exit with its code.

    ``spark``: which Spark makes the tables; if None, one on this machine.
    """
    from stallbench.pipeline.process import make_tables
    from stallbench.run.conclusion import conclude
    from stallbench.run.view import print_verdict

    verdict = conclude(RunFolder(folder), partial(make_tables, spark=spark or SparkOptions()))
    print_verdict(verdict, shorten(folder / "report.html"))
    if verdict.status != "completed":
        sys.exit(EXIT_INTERRUPTED if verdict.status == "aborted" else NotCarriedOutError.exit_code)
    sys.exit(EXIT_PASS if verdict.verdict == "pass" else EXIT_FAIL)


def conclude_comparison_and_exit(path: Path) -> NoReturn:
    """Make the report of a comparison, print its ranking, and exit with its code."""
    from stallbench.comparison.conclusion import conclude_comparison
    from stallbench.comparison.record import ComparisonFolder
    from stallbench.comparison.screen import print_comparison

    record, results = conclude_comparison(ComparisonFolder(path))
    print_comparison(record, results, shorten(path / "report.html"))
    sys.exit(record.exit_code)


def conclude_soak_and_exit(path: Path) -> NoReturn:
    """Make the report of a soak, print the drifts, and exit with its code."""
    from stallbench.soak.conclusion import conclude_soak
    from stallbench.soak.folder import SoakFolder
    from stallbench.soak.screen import print_soak

    record, drifts, is_running = conclude_soak(SoakFolder(path))
    print_soak(record, drifts, shorten(path / "report.html"), is_running=is_running)
    sys.exit(record.exit_code)


def shorten(path: Path) -> str:
    """Return ``path`` relative to the current folder, if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)
