"""`stallbench conform`: tries every promise of a queue."""

from __future__ import annotations

import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from stallbench.commands.endings import index_renewed, shorten
from stallbench.commands.options import CrashSeedOption, RunsOption, SetOption, require_writable
from stallbench.run.folder import RUNS
from stallbench.visible_text import say


def conform(
    queue: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE", help="A queue: path/to/file.py:ClassName, library:path/to/folder, or a kind of the bench."
        ),
    ],
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
    runs: RunsOption = RUNS,
) -> None:
    """Try every promise of a queue: each operation on a real server, then a load in which processes are killed or paused at every crash point.

    Prints one line for each promise: pass, FAIL, unknown, or info if the queue does not give the promise.

    Exit codes: 0 every promise holds, 1 one is broken or could not be judged, 2 bad input, 3 it could not be carried out, 130 interrupted.

    For example:

        stallbench conform app/queue.py:MyQueue
        stallbench conform library:path/to/folder --junit conformance.xml
        stallbench conform laravel --set database.engine=mariadb --no-crash-points
    """
    from stallbench.run.view import RunView
    from stallbench.studies.torture.conformance import plan_conformance, try_promises
    from stallbench.studies.torture.promise_outcome import (
        PromiseOutcome,
        decide,
        describe_outcome,
        describe_promise,
        write_junit,
    )

    if junit is not None:
        require_writable("--junit", junit)
    seed = secrets.randbelow(2**31) if seed is None else seed
    plan = plan_conformance(queue, seed=seed, overrides=set_ or [], with_crash_points=crash_points)
    promises: list[PromiseOutcome] = []
    try:
        with index_renewed(runs), RunView() as view:

            def show(outcome: PromiseOutcome) -> None:
                promises.append(outcome)
                view.say(describe_promise(outcome))

            view.say(f"{queue} on {plan.scenario.database.engine}, seed {seed}")
            folder = try_promises(plan, runs, view, show)
    except BaseException:
        if junit is not None and promises:
            with suppress(OSError):  # the first error is what the user has to know
                write_junit(junit, queue, promises)
        raise
    say(describe_outcome(promises, shorten(folder)))
    if junit is not None:
        write_junit(junit, queue, promises)
    sys.exit(decide(promises))
