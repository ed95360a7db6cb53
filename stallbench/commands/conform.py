"""`stallbench conform`: tries every promise of a queue."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from stallbench.commands.endings import conclude_study_and_exit
from stallbench.commands.options import (
    ContinueOption,
    CrashSeedOption,
    RunsOption,
    SetOption,
    find_study_to_continue,
    require_no_options,
    require_writable,
)
from stallbench.errors import BadInputError
from stallbench.run.folder import RUNS


def conform(
    queue: Annotated[
        str | None,
        typer.Argument(
            metavar="QUEUE",
            help="A queue: path/to/file.py:ClassName, library:path/to/folder, or a kind of the bench. Leave it out with --continue.",
        ),
    ] = None,
    set_: SetOption = None,
    seed: CrashSeedOption = None,
    crash_points: Annotated[
        bool,
        typer.Option(
            "--crash-points/--no-crash-points",
            help="Whether crash points are tried, too. Without them the command takes seconds instead of minutes.",
        ),
    ] = True,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write a JUnit file, with one case for each promise.")
    ] = None,
    continue_: ContinueOption = None,
    runs: RunsOption = RUNS,
) -> None:
    """Try every promise of a queue: each operation on a real server, then a load in which processes are killed or paused at every crash point.

    Prints one line for each promise: holds, broken, unknown, or not promised.

    A test that was interrupted, or of which a run could not be carried out, is continued with --continue.

    Exit codes: 0 every promise holds, 1 one is broken or could not be judged, 2 bad input, 3 it could not be carried out, 130 interrupted.

    For example:

        stallbench conform app/queue.py:MyQueue
        stallbench conform library:path/to/folder --junit conformance.xml
        stallbench conform laravel --set database.engine=mariadb --no-crash-points
        stallbench conform --continue 20261121T031258Z-conform-my_queue
    """
    from stallbench.report.junit import write_suites
    from stallbench.run.view import RunView
    from stallbench.studies.conformance.conformance import carry_out_conformance, continue_conformance
    from stallbench.studies.conformance.kind import KIND, make_suite
    from stallbench.studies.conformance.record import ConformanceFolder
    from stallbench.studies.torture.plan import plan_torture

    if junit is not None:
        require_writable("--junit", junit)
    if continue_ is not None:
        given = {"QUEUE": queue, "--set": set_ or None, "--seed": seed, "--no-crash-points": None if crash_points else True}
        require_no_options("--continue takes the settings of the earlier test", given)
        folder = ConformanceFolder(find_study_to_continue(continue_, KIND, runs))
        with RunView() as view:
            record = continue_conformance(folder, view)
    elif queue is None:
        raise BadInputError("conform needs a QUEUE, like app/queue.py:MyQueue; only --continue works without one")
    else:
        seed = secrets.randbelow(2**31) if seed is None else seed
        plan = plan_torture(queue, seed=seed, overrides=set_ or [], points=(), action=None)
        with RunView() as view:
            view.say(f"{queue} on {plan.engine}, seed {seed}")
            folder, record = carry_out_conformance(plan, runs, view, with_crash_points=crash_points)
    if junit is not None:
        write_suites(junit, [make_suite(record)])
    conclude_study_and_exit(folder.path, record)
