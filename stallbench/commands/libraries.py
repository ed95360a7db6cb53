"""`stallbench libraries`: list the published queue libraries that can be tested, and install one."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from stallbench.console import VisibleConsole
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.visible_text import say

libraries = typer.Typer(invoke_without_command=True)


@libraries.callback()
def list_libraries(context: typer.Context) -> None:
    """List the published queue libraries that can be tested, and install them.

    The list has the version, language and engines of each library, the settings of its worker, and whether it is installed. A library is installed
    when it is first used.

    For example:

        stallbench libraries
        stallbench run longtx --set queue.kind=library:procrastinate
    """
    if context.invoked_subcommand is not None:
        return
    from stallbench.libraries import find_libraries
    from stallbench.libraries.installation import find_missing_requirement, is_installed
    from stallbench.libraries.settings import format_settings

    console = VisibleConsole(highlight=False, soft_wrap=True)
    for name, library in find_libraries().items():
        state = "installed" if is_installed(library) else "not installed"
        engines = ", ".join(library.engines)
        console.print(
            f"[bold]{LIBRARY_PREFIX}{name}[/bold]  {escape(library.title)} {library.version}, {library.language}, on {engines}; {state}"
        )
        console.print(f"    [dim]{escape(library.summary)}[/dim]")
        if values := library.compute_settings({}):
            console.print(f"    [dim]each worker process: {format_settings(values)}[/dim]")
        if missing := find_missing_requirement(library):
            console.print(f"    [yellow]{escape(missing)}[/yellow]")


@libraries.command()
def setup(
    names: Annotated[list[str], typer.Argument(help="Names as `stallbench libraries` lists them.", show_default=False)],
) -> None:
    """Install libraries now, so that they can be used offline.

    Exit codes: 0 all are installed, 2 there is no such library or the machine lacks what one needs, 3 one could not be installed.

    For example:

        stallbench libraries setup procrastinate graphile_worker
    """
    from stallbench.libraries import find_library
    from stallbench.libraries.installation import require_installed

    chosen = [find_library(name.removeprefix(LIBRARY_PREFIX)) for name in names]
    for library in chosen:
        require_installed(library, print)
        say(f"{library.title_and_version} is installed")
