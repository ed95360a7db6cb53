"""`stallbench clean`: removes what runs left behind when their bench was killed."""

from __future__ import annotations

from typing import Annotated

import typer

from stallbench.commands.options import RunsOption
from stallbench.run.folder import RUNS


def clean(
    runs: RunsOption = RUNS,
    reports: Annotated[
        bool,
        typer.Option(
            "--reports", help="Also delete the folders of all runs, comparisons, soaks and limits, and folders that contain runs."
        ),
    ] = False,
) -> None:
    """Remove the processes, servers and temporary folders of runs whose bench was killed. Active runs are not affected.

    For example:

        stallbench clean
        stallbench clean --reports
    """
    from stallbench.processes.reaper import remove_leftovers

    for sentence in remove_leftovers(runs, delete_runs=reports) or ["nothing was left behind"]:
        print(sentence)
