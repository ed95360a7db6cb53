"""`stallbench soak`: repeats a scenario for hours."""

from __future__ import annotations

from typing import Annotated

import typer

from stallbench.commands.endings import conclude_soak_and_exit
from stallbench.commands.options import (
    AgainstOption,
    AllowServerChangesOption,
    DatabaseOption,
    DsnOption,
    RunsOption,
    SetOption,
    ToleranceOption,
    ToxiproxyOption,
    VariantOption,
    find_against,
)
from stallbench.run.folder import RUNS


def soak(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help="A name from `stallbench list`, or a path. Leave it out with --continue."),
    ] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="TIME", help="The duration of the soak, like 8h.")] = None,
    resume: Annotated[
        str | None,
        typer.Option("--continue", "--resume", metavar="SOAK", help="Continue an interrupted soak: its folder, or its name."),
    ] = None,
    variant: VariantOption = None,
    set_: SetOption = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="N",
            min=0,
            max=1000,
            help="Keep the records of the last N cycles that passed, and of the first N that did not. Default: 3.",
        ),
    ] = None,
    dsn: DsnOption = None,
    database: DatabaseOption = None,
    toxiproxy: ToxiproxyOption = None,
    allow_server_changes: AllowServerChangesOption = False,
    against: AgainstOption = None,
    tolerance: ToleranceOption = None,
    runs: RunsOption = RUNS,
) -> None:
    """Repeat a scenario for hours on the same servers, judge each cycle, and report what drifts.

    The soak continues when its terminal is closed.

    With --against the last cycles and the drift are compared with those of an earlier soak of the same length.

    Exit codes: 0 every cycle passed, 1 a cycle did not pass, or there is a regression (--against), 2 bad input, 3 a cycle could not be carried
    out, 130 interrupted (the cycles completed so far are reported, and --continue continues the soak).

    For example:

        stallbench soak longtx --for 8h
        stallbench soak baseline --for 20m --set phases.baseline.duration=60s
        stallbench soak longtx --for 8h --against soak.json
        stallbench soak --continue 20261120T220000Z-soak-longtx
    """
    from stallbench.studies.soak.command import begin_or_resume, carry_out

    begun = begin_or_resume(
        scenario,
        for_=for_,
        resume_=resume,
        variant=variant,
        overrides=set_ or [],
        keep=keep,
        dsn=dsn or [],
        database=database,
        toxiproxy=toxiproxy,
        may_change_servers=allow_server_changes,
        against=find_against(against, tolerance, runs),
        runs=runs,
    )
    carry_out(begun)
    conclude_soak_and_exit(begun.folder.path)
