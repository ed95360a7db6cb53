"""`stallbench soak`: repeats a scenario for hours."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated

import typer

from stallbench.commands.endings import conclude_study_and_exit
from stallbench.commands.options import (
    AgainstOption,
    AllowServerChangesOption,
    ContinueOption,
    DatabaseOption,
    DsnOption,
    JudgeOption,
    RunsOption,
    SetOption,
    ToleranceOption,
    ToxiproxyOption,
    VariantOption,
    find_against,
    find_study_to_continue,
    list_overrides,
    require_no_options,
)
from stallbench.errors import BadInputError
from stallbench.run.folder import RUNS

if TYPE_CHECKING:
    from stallbench.engines.database import Database
    from stallbench.servers.addresses import ExternalServers

_KEEP = 3


def soak(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help="A name from `stallbench list`, or a path. Leave it out with --continue."),
    ] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="TIME", help="The duration of the soak, like 8h.")] = None,
    variant: VariantOption = None,
    set_: SetOption = None,
    judge: JudgeOption = None,
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
    continue_: ContinueOption = None,
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
    from stallbench.servers.addresses import read_external_servers
    from stallbench.studies.soak.folder import SoakFolder
    from stallbench.studies.soak.kind import KIND
    from stallbench.studies.soak.plan import plan_soak
    from stallbench.studies.soak.soak import carry_out_soak, continue_soak

    # Ignored here and by every process that is started from here, so that the soak continues when the terminal is closed.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def find_servers(wanted: Database) -> ExternalServers | None:
        return read_external_servers(
            dsn or [], database=database, toxiproxy=toxiproxy, may_change_servers=allow_server_changes, wanted=wanted
        )

    if continue_ is not None:
        given = {"SCENARIO": scenario, "--for": for_, "--variant": variant, "--set": set_ or None, "--judge": judge}
        given |= {"--against": against, "--tolerance": tolerance or None}
        require_no_options("--continue continues a soak as it was begun", given)
        folder = SoakFolder(find_study_to_continue(continue_, KIND, runs))
        conclude_study_and_exit(folder.path, continue_soak(folder, keep, find_servers))
    if scenario is None or for_ is None:
        raise BadInputError("soak needs a SCENARIO and how long, like: stallbench soak longtx --for 8h; or --continue SOAK")
    plan = plan_soak(
        scenario,
        for_,
        variant=variant,
        overrides=list_overrides(set_, judge),
        keep=_KEEP if keep is None else keep,
        find_servers=find_servers,
        against=find_against(against, tolerance, runs),
    )
    folder, record = carry_out_soak(plan, runs)
    conclude_study_and_exit(folder.path, record)
