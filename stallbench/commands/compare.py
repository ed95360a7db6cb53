"""Compares interleaved variants of a scenario."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from stallbench.commands.endings import conclude_comparison_and_exit
from stallbench.commands.options import (
    RunsOption,
    SetOption,
)
from stallbench.errors import (
    EXIT_PASS,
    BadInputError,
)
from stallbench.run.folder import RUNS


def compare(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help="A name from `stallbench list`, or a path; may be left out with --table."),
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option(
            "--variants",
            metavar="A,B,..",
            help="Which variants, with commas between; `control` is the scenario without one. If not given, it and its mitigations, or all if none is one.",
        ),
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", metavar="N", min=1, max=1000, help="How often each is run.")] = 3,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="S", min=0, max=2**31 - 1, help="Of the order and of all runs; the scenario's if not given."
        ),
    ] = None,
    set_: SetOption = None,
    table: Annotated[
        bool,
        typer.Option("--table", help="Run nothing: write the tables in docs/mitigations.md again, from the comparisons on disk."),
    ] = False,
    runs: RunsOption = RUNS,
) -> None:
    """Run interleaved variants of a scenario and report which is better, by how much, and whether that is significant.

    Exit codes: 0 every run passes, 1 one fails (or could not be decided), 2 bad input, 3 a run could not be carried out, 130 interrupted
    (what was done until then is compared).

    Examples:
        stallbench compare longtx

        stallbench compare longtx --variants control,skip_locked --repeat 5

        stallbench compare --table
    """
    if table:
        _write_tables_and_exit(scenario, runs)
    if scenario is None:
        raise BadInputError("compare needs a SCENARIO, like longtx; only --table goes without one")
    from stallbench.comparison.comparison import carry_out_runs
    from stallbench.comparison.plan import make_plan

    plan = make_plan(scenario, variants=variants, rounds=repeat, seed=seed, overrides=set_ or [])
    conclude_comparison_and_exit(carry_out_runs(plan, runs, say=print).path)


def _write_tables_and_exit(scenario: str | None, runs: Path) -> NoReturn:
    from stallbench.comparison.mitigations import write_tables

    for sentence in write_tables(runs, scenario):
        print(sentence)
    sys.exit(EXIT_PASS)
