"""`stallbench matrix`: compares one scenario on several versions of servers."""

from __future__ import annotations

from typing import Annotated

import typer

from stallbench.commands.endings import conclude_study_and_exit
from stallbench.commands.options import (
    AgainstOption,
    JudgeOption,
    RoundsOption,
    RunsOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    ToleranceOption,
    VariantOption,
    find_against,
    list_overrides,
)
from stallbench.run.folder import RUNS


def matrix(
    scenario: ScenarioArgument,
    versions: Annotated[
        str,
        typer.Option(
            "--versions",
            metavar="ENGINE:VERSION,..",
            help="The versions, separated by commas, like postgres:14..18,mariadb:10.11. The first is the reference. "
            "A version of PostgreSQL that is missing is installed into the bench's cache.",
        ),
    ],
    variant: VariantOption = None,
    repeat: RoundsOption = 3,
    seed: SeedOption = None,
    set_: SetOption = None,
    judge: JudgeOption = None,
    against: AgainstOption = None,
    tolerance: ToleranceOption = None,
    runs: RunsOption = RUNS,
) -> None:
    """Compare a scenario on several versions of servers: does the upgrade help, by how much, and is the difference significant?

    Each round has one run on every version, in a random order.

    With --against each version is compared with itself in an earlier matrix.

    Exit codes: 0 every run passed, 1 a run failed or its verdict is unknown, or there is a regression (--against), 2 bad input, or a version
    that is not available, 3 a run could not be carried out, 130 interrupted (the runs completed so far are compared).

    For example:

        stallbench matrix longtx --versions postgres:14..18
        stallbench matrix longtx --variant skip_locked --versions postgres:15,postgres:18 --repeat 5
        stallbench matrix longtx --versions postgres:14..18 --repeat 5 --against matrix.json
    """
    from stallbench.studies.comparison.comparison import carry_out_runs
    from stallbench.studies.comparison.versions import make_matrix_plan

    compared = find_against(against, tolerance, runs)
    plan = make_matrix_plan(
        scenario, versions=versions, variant=variant, rounds=repeat, seed=seed, overrides=list_overrides(set_, judge)
    )
    if compared:
        plan = plan.comparable_with(compared.baseline)
    folder, record = carry_out_runs(plan, runs, say=print, compared=compared)
    conclude_study_and_exit(folder.path, record)
