"""`stallbench baseline`: writes the figures of runs to a file, for --against."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stallbench.base.storage.atomic_file import replace_file
from stallbench.commands.options import RunsOption, require_writable
from stallbench.run.folder import RUNS
from stallbench.visible_text import say


def baseline(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Runs, comparisons, matrices, searches for a limit or soaks, each by its folder or its name; `latest` is the newest run. Or baseline "
            "files: their runs are also in the new file.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it. Default: standard output.")
    ] = None,
    runs: RunsOption = RUNS,
) -> None:
    """Write a baseline: the figures of runs of one scenario, for `stallbench run --against FILE`.

    It is a small JSON file to be committed. With three runs or more, a later run fails only if it is significantly worse.

    Exit codes: 0 it is written, 2 bad input, or runs that cannot be in one baseline, 3 the file cannot be written.

    For example:

        stallbench baseline latest --output baseline.json
        stallbench baseline reports/runs/20261121T031258Z-compare-longtx --output baseline.json
        stallbench baseline baseline.json latest --output baseline.json
    """
    from stallbench.studies.baseline_collection import collect_baseline
    from stallbench.verdicts.baseline.baseline_file import write_baseline

    if output is not None:
        require_writable("--output", output)
    made = collect_baseline(sources, runs)
    text = write_baseline(made)
    if output is None:
        sys.stdout.write(text)
        return
    replace_file(output, text)
    counts = ", ".join(
        f"{len(variant.runs)} run{'s' if len(variant.runs) != 1 else ''} of {name}" for name, variant in made.variants.items()
    )
    say(f"{output}: {counts}")
