"""`stallbench clean`: removes what runs left behind when their bench was killed."""

from __future__ import annotations

from typing import Annotated

import typer

from stallbench.commands.options import RunsOption
from stallbench.run.folder import RUNS
from stallbench.visible_text import say


def clean(
    runs: RunsOption = RUNS,
    reports: Annotated[
        bool,
        typer.Option(
            "--reports", help="Also delete the folders of all runs, comparisons, soaks and limits, and folders that contain runs."
        ),
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Also remove the record of what dead runs changed on external servers, if it cannot be undone: the servers no longer exist.",
        ),
    ] = False,
) -> None:
    """Remove the processes, servers and temporary folders of runs whose bench was killed. Active runs are not affected.

    Exit codes: 0 what was removed, and what has to stay, is printed, 2 bad input, 3 a file cannot be removed.

    For example:

        stallbench clean
        stallbench clean --reports
        stallbench clean --forget
    """
    from stallbench.leftovers import remove_leftovers

    for sentence in remove_leftovers(runs, delete_runs=reports, forget=forget) or ["nothing was left behind"]:
        say(sentence)
    if reports:
        from stallbench.report.run_index import renew_index

        renew_index(runs)
