"""`stallbench compare`: compares interleaved variants of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, cast, get_args

import typer

from stallbench.commands.endings import conclude_study_and_exit
from stallbench.commands.options import (
    AgainstOption,
    JudgeOption,
    RoundsOption,
    RunsOption,
    SeedOption,
    SetOption,
    ToleranceOption,
    find_against,
    find_study_to_continue,
    list_overrides,
    require_no_options,
)
from stallbench.errors import BadInputError
from stallbench.run.folder import RUNS

if TYPE_CHECKING:
    from stallbench.studies.comparison.plan import Load


def compare(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="A name from `stallbench list`, or a path. Leave it out with --continue.",
        ),
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option(
            "--variants",
            metavar="A,B,..",
            help="The variants to compare, separated by commas; `control` is the scenario without a variant. "
            "Default: `control` and the mitigations, or all variants if none is a mitigation.",
        ),
    ] = None,
    libraries: Annotated[
        str | None,
        typer.Option(
            "--libraries",
            metavar="A,B,..",
            help="Published libraries to compare, each in place of the scenario's queue; `all` for all that `stallbench libraries` lists.",
        ),
    ] = None,
    load: Annotated[
        str,
        typer.Option(
            "--load",
            metavar="common|own",
            help="With --libraries, a load that is a share of the workers' capacity is a share of the smallest capacity of all (common), "
            "or of each library's own.",
        ),
    ] = "common",
    repeat: RoundsOption = 3,
    seed: SeedOption = None,
    set_: SetOption = None,
    judge: JudgeOption = None,
    continue_: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="COMPARISON",
            help="Carry out what an earlier comparison lacks: the runs of an interrupted one, those that could not be carried out, and further "
            "rounds up to --repeat. Its folder or name; all other settings are its own.",
        ),
    ] = None,
    against: AgainstOption = None,
    tolerance: ToleranceOption = None,
    runs: RunsOption = RUNS,
) -> None:
    """Compare variants of a scenario: which is better, by how much, and is the difference significant?

    The runs of the variants are interleaved.

    Exit codes: 0 every run passed, 1 a run failed or its verdict is unknown, or there is a regression (--against), 2 bad input,
    3 a run could not be carried out, 130 interrupted (the runs completed so far are compared).

    For example:

        stallbench compare longtx
        stallbench compare longtx --variants control,skip_locked --repeat 5
        stallbench compare longtx --libraries all --load own
        stallbench compare longtx --variants control,skip_locked --repeat 5 --against baseline.json
        stallbench compare --continue 20261121T031258Z-compare-longtx --repeat 5
    """
    options = {
        "--variants": variants,
        "--libraries": libraries,
        "--load": None if load == "common" else load,
        "--seed": seed,
        "--set": set_ or None,
        "--judge": judge,
        "--against": against,
        "--tolerance": tolerance or None,
    }
    if continue_ is not None:
        require_no_options("--continue takes the settings of the earlier comparison", {"SCENARIO": scenario, **options})
        _continue_and_exit(continue_, repeat, runs)
    if scenario is None:
        raise BadInputError("compare needs a SCENARIO, like longtx; only --continue works without one")
    from stallbench.studies.comparison.comparison import carry_out_runs
    from stallbench.studies.comparison.plan import make_plan

    compared = find_against(against, tolerance, runs)
    plan = make_plan(
        scenario,
        variants=variants,
        libraries=libraries,
        load=_read_load(load),
        rounds=repeat,
        seed=seed,
        overrides=list_overrides(set_, judge),
    )
    if compared:
        plan = plan.comparable_with(compared.baseline)
    folder, record = carry_out_runs(plan, runs, say=print, compared=compared)
    conclude_study_and_exit(folder.path, record)


def _read_load(text: str) -> Load:
    from stallbench.studies.comparison.plan import Load

    if text not in get_args(Load):
        raise BadInputError(f"--load {text}: must be {' or '.join(get_args(Load))}")
    return cast("Load", text)


def _continue_and_exit(name: str, rounds: int, runs: Path) -> NoReturn:
    from stallbench.studies.comparison.comparison import continue_runs
    from stallbench.studies.comparison.kind import KIND
    from stallbench.studies.comparison.record import ComparisonFolder

    folder = find_study_to_continue(name, KIND, runs)
    conclude_study_and_exit(folder, continue_runs(ComparisonFolder(folder), rounds, say=print))
