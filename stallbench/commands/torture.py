"""`stallbench torture`: kills or pauses processes at every crash point of a queue, and judges every promise."""

from __future__ import annotations

import secrets
import sys
from typing import Annotated

import typer

from stallbench.commands.endings import shorten
from stallbench.commands.options import CrashSeedOption, RunsOption, SetOption
from stallbench.queues.crash_points import CrashPoint
from stallbench.run.folder import RUNS


def torture(
    queue: Annotated[
        str, typer.Argument(metavar="QUEUE", help="A queue, as a scenario names it: its kind, or path/to/file.py:ClassName.")
    ],
    set_: SetOption = None,
    seed: CrashSeedOption = None,
    point: Annotated[
        list[CrashPoint] | None, typer.Option("--point", help="Only this point. Can be repeated.", show_default=False)
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", metavar="kill|pause", help="Only kill, or only pause. Default: both.")
    ] = None,
    runs: RunsOption = RUNS,
) -> None:
    """Kill or pause the processes of a queue at every crash point, and report which promises of the queue hold.

    The load takes about two minutes; then the tables are made.

    Exit codes: 0 all promises hold, 1 one is broken or could not be judged, 2 bad input, 3 the torture could not be carried out, 130
    interrupted.

    For example:

        stallbench torture status_column
        stallbench torture laravel --set database.engine=mariadb
        stallbench torture my_queue.py:MyQueue --seed 7 --point after_claim --action kill
    """
    from stallbench.errors import BadInputError
    from stallbench.run.view import RunView
    from stallbench.studies.torture.plan import ACTIONS
    from stallbench.studies.torture.screen import print_torture
    from stallbench.studies.torture.torture import plan_torture
    from stallbench.studies.torture.torture import torture as carry_out

    chosen = next((each for each in ACTIONS if each == action), None)
    if action is not None and chosen is None:
        raise BadInputError(f"--action {action}: expected kill or pause")
    seed = secrets.randbelow(2**31) if seed is None else seed
    plan = plan_torture(queue, seed=seed, overrides=set_ or [], points=point or [], action=chosen)
    with RunView() as view:
        view.say(f"{plan.kind} on {plan.engine}: {len(plan.trials)} trials in {len(plan.runs)} runs, seed {plan.seed}")
        folder, outcome = carry_out(plan, runs, view)
    print_torture(plan, outcome, shorten(folder))
    sys.exit(outcome.exit_code)
