"""`stallbench publish`: writes the evidence of a run or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stallbench.commands.endings import shorten
from stallbench.commands.options import RunsOption
from stallbench.run.folder import RUNS
from stallbench.visible_text import say


def publish(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|STUDY",
            help="The folder or the name of a run or of a study of several runs; `latest` is the newest run.",
        ),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder for the files.")] = Path("evidence"),
    busy_host: Annotated[
        bool,
        typer.Option("--busy-host", help="Publish it even if other programs used the machine during it, and say so in the file."),
    ] = False,
    runs: RunsOption = RUNS,
) -> None:
    """Write what a run or a study has shown into a small JSON file, for pages and for others.

    The file has the resolved scenario, versions, hashes of the library's locks and adapter, settings, machine and its load, outcome, verdict and
    figures, and no path, host or user of this machine. Outcome and verdict are computed again from it by whoever reads it. The runs of a comparison
    have a file each.

    Exit codes: 0 it is written, 2 bad input, or a run that was not completed or had not the machine for itself, 3 the file cannot be written.

    For example:

        stallbench publish latest
        stallbench publish 20261121T031258Z-compare-longtx --to evidence
    """
    from stallbench.evidence.publication import publish as write

    for path in write(run, runs, to, even_if_busy=busy_host):
        say(f"{shorten(path)}: {path.stat().st_size / 1000:.0f} kB")
