"""`stallbench torture`: kills or pauses processes at every crash point of a queue, and judges every promise."""

from __future__ import annotations

import secrets
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
)
from stallbench.errors import BadInputError
from stallbench.queues.crash_points import CrashPoint
from stallbench.run.folder import RUNS


def torture(
    queue: Annotated[
        str | None,
        typer.Argument(
            metavar="QUEUE",
            help="A queue, as a scenario names it: its kind, or path/to/file.py:ClassName. Leave it out with --continue.",
        ),
    ] = None,
    set_: SetOption = None,
    seed: CrashSeedOption = None,
    point: Annotated[
        list[CrashPoint] | None, typer.Option("--point", help="Only this point. Can be repeated.", show_default=False)
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", metavar="kill|pause", help="Only kill, or only pause. Default: both.")
    ] = None,
    continue_: ContinueOption = None,
    runs: RunsOption = RUNS,
) -> None:
    """Kill or pause the processes of a queue at every crash point, and report which promises of the queue hold.

    The load takes about two minutes; then the tables are made.

    A torture that was interrupted, or of which a run could not be carried out, is continued with --continue.

    Exit codes: 0 all promises hold, 1 one is broken or could not be judged, 2 bad input, 3 the torture could not be carried out, 130
    interrupted.

    For example:

        stallbench torture status_column
        stallbench torture laravel --set database.engine=mariadb
        stallbench torture my_queue.py:MyQueue --seed 7 --point after_claim --action kill
        stallbench torture --continue 20261121T031258Z-torture-status_column
    """
    from stallbench.run.view import RunView
    from stallbench.studies.torture.kind import KIND
    from stallbench.studies.torture.plan import ACTIONS, plan_torture
    from stallbench.studies.torture.record import TortureFolder
    from stallbench.studies.torture.torture import carry_out_torture, continue_torture

    if continue_ is not None:
        given = {"QUEUE": queue, "--set": set_ or None, "--seed": seed, "--point": point or None, "--action": action}
        require_no_options("--continue takes the settings of the earlier torture", given)
        folder = TortureFolder(find_study_to_continue(continue_, KIND, runs))
        with RunView() as view:
            record = continue_torture(folder, view)
        conclude_study_and_exit(folder.path, record)
    if queue is None:
        raise BadInputError("torture needs a QUEUE, like status_column; only --continue works without one")
    chosen = next((each for each in ACTIONS if each == action), None)
    if action is not None and chosen is None:
        raise BadInputError(f"--action {action}: expected kill or pause")
    seed = secrets.randbelow(2**31) if seed is None else seed
    plan = plan_torture(queue, seed=seed, overrides=set_ or [], points=point or [], action=chosen)
    with RunView() as view:
        view.say(f"{plan.kind} on {plan.engine}: {len(plan.trials)} trials in {len(plan.runs)} runs, seed {plan.seed}")
        folder, record = carry_out_torture(plan, runs, view)
    conclude_study_and_exit(folder.path, record)
