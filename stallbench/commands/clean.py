"""Removes what dead runs left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from stallbench.commands.options import RunsOption
from stallbench.run.folder import RUNS


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
