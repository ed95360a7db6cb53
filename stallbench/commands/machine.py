"""Checks the machine, and cleans up on it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stallbench.commands.options import (
    RunsOption,
)
from stallbench.errors import (
    EXIT_NOT_CARRIED_OUT,
    EXIT_PASS,
)
from stallbench.run.folder import RUNS


def doctor() -> None:
    """Check what the bench needs from this machine, and say what would install what is missing.

    Example:
        stallbench doctor
    """
    from stallbench.setup.doctor import check, render

    findings = check()
    print(render(findings))
    sys.exit(EXIT_PASS if all(finding.ok or not finding.is_needed for finding in findings) else EXIT_NOT_CARRIED_OUT)


def clean(
    runs: RunsOption = RUNS,
    reports: Annotated[bool, typer.Option("--reports", help="Also delete all recorded runs.")] = False,
) -> None:
    """Remove what dead runs left behind: processes, servers and temporary folders. Running runs are not touched.

    Examples:
        stallbench clean

        stallbench clean --reports
    """
    from stallbench.processes.reaper import remove_leftovers

    for sentence in remove_leftovers(runs, delete_runs=reports) or ["nothing was left behind"]:
        print(sentence)
