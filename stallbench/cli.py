"""The command line: registers the commands, and turns every error into one message and an exit code."""

from __future__ import annotations

import errno
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import stallbench
from stallbench.commands.baseline import baseline
from stallbench.commands.clean import clean
from stallbench.commands.compare import compare
from stallbench.commands.conform import conform
from stallbench.commands.dashboards import push
from stallbench.commands.doctor import doctor
from stallbench.commands.extra import BenchCommand, describe_missing_extra, has_bench
from stallbench.commands.forecast import forecast
from stallbench.commands.init import init
from stallbench.commands.libraries import libraries
from stallbench.commands.limit import limit
from stallbench.commands.matrix import matrix
from stallbench.commands.observe import observe
from stallbench.commands.publish import publish
from stallbench.commands.report import report
from stallbench.commands.run import run
from stallbench.commands.scenarios import list_, schema, show, validate
from stallbench.commands.setup import setup
from stallbench.commands.soak import soak
from stallbench.commands.torture import torture
from stallbench.commands.upload import upload
from stallbench.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_NOT_CARRIED_OUT, EXIT_PASS, StallbenchError
from stallbench.visible_text import say

_NEVER_A_PATH = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of a path that was wrong from the start. One that is not there (ENOENT) may have been removed during the command."""


class _Commands(TyperGroup):
    """The commands. Typer alone would end an interrupted one without a message."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Execute the command. An interrupt ends it with one line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _end_interrupted()


app = typer.Typer(
    cls=_Commands,
    help="A chaos and degradation test bench for job queues that live in a database.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        say(f"stallbench {stallbench.__version__}")
        raise typer.Exit


@app.callback()
def _read_common_options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None: ...


app.command(cls=BenchCommand)(run)
app.command()(init)
app.command(cls=BenchCommand)(compare)
app.command(cls=BenchCommand)(matrix)
app.command(cls=BenchCommand)(limit)
app.command(cls=BenchCommand)(soak)
app.command(cls=BenchCommand)(torture)
app.command(cls=BenchCommand)(conform)
app.command()(report)
app.command(cls=BenchCommand)(baseline)
app.command(cls=BenchCommand)(upload)
app.command(cls=BenchCommand)(publish)
app.command(cls=BenchCommand)(forecast)
app.command()(observe)
dashboards = typer.Typer(help="Manage Grafana dashboards that show runs.", no_args_is_help=True)
dashboards.command(cls=BenchCommand)(push)
app.add_typer(dashboards, name="dashboards")
app.add_typer(libraries, name="libraries")
app.command("list")(list_)
app.command()(show)
app.command()(validate)
app.command()(schema)
app.command(cls=BenchCommand)(setup)
app.command(cls=BenchCommand)(doctor)
app.command(cls=BenchCommand)(clean)


def main() -> NoReturn:
    """Run the command line. An error that a user can cause prints one message, without a traceback, and exits with its documented code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(standalone_mode=True)
    except StallbenchError as error:
        say(error, to=sys.stderr)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if has_bench():
            raise
        say(describe_missing_extra(f"this command (its module {error.name})"), to=sys.stderr)
        sys.exit(EXIT_NOT_CARRIED_OUT)
    except OSError as error:
        path = f"{error.filename}: " if error.filename else ""
        say(f"{path}{error.strerror or error}", to=sys.stderr)
        sys.exit(EXIT_BAD_INPUT if _is_about_an_argument(error) else EXIT_NOT_CARRIED_OUT)
    except KeyboardInterrupt:
        _end_interrupted()
    sys.exit(EXIT_PASS)


def _is_about_an_argument(error: OSError) -> bool:
    """Whether the user gave a path that may not be used or that can be none, a folder in which that is so, or the name of something in a folder."""
    if error.errno not in _NEVER_A_PATH or not isinstance(error.filename, str):
        return False
    path = Path(error.filename)
    given = [Path(value) for argument in sys.argv[1:] for value in (argument, argument.partition("=")[2]) if value]
    return any(value in (path, *path.parents) or value == Path(path.name) for value in given if value != Path())


def _end_interrupted() -> NoReturn:
    say("interrupted", to=sys.stderr)
    sys.exit(EXIT_INTERRUPTED)


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
