"""`stallbench init`: creates a first scenario, queue and test in the user's project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stallbench.commands.endings import shorten
from stallbench.commands.extra import has_bench, name_extra
from stallbench.shell_command import format_shell_command
from stallbench.visible_text import say


def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="[FOLDER]", help="The folder for the files; it is created if it does not exist.", show_default="."
        ),
    ] = Path(),
) -> None:
    """Create a first scenario, a queue and a test that run without changes. No file is overwritten.

    Exit codes: 0 created, 2 a file exists already, 3 a file cannot be written.

    For example:

        stallbench init
        stallbench init tests/stallbench
    """
    from stallbench import PROJECT
    from stallbench.scenario.first_project import QUEUE, TEST, create_first_project, folder_as_named, format_run_command

    for path in create_first_project(folder):
        say(f"created {shorten(path)}")
    named = folder_as_named(folder)
    queue, docs = named / QUEUE, PROJECT / "docs"
    steps = {} if has_bench() else {name_extra("bench"): "installs what runs need, about 1.4 GB"}
    steps |= {
        "stallbench setup": f"installs what is missing on this machine: {shorten(docs / 'install.md')}",
        format_run_command(folder): "runs the scenario, half a minute of load, and makes its report",
        format_shell_command(["stallbench", "conform", str(queue)]): "tries every promise of the queue, at every crash point",
        format_shell_command(["pytest", str(named / TEST)]): f"runs the same scenario as a test: {shorten(docs / 'ci.md')}",
    }
    width = max(map(len, steps))
    say("\nnext steps, from this folder:")
    for command, does in steps.items():
        say(f"  {command:<{width}}  {does}")
    say(f"then replace the statements in my_queue.sql by your own: {shorten(docs / 'add-a-queue.md')}")
