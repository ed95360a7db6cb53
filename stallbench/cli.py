"""The command line: parses, prints, exits; knows nothing else."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from stallbench.errors import (
    EXIT_FAIL,
    EXIT_INTERRUPTED,
    EXIT_NOT_CARRIED_OUT,
    EXIT_PASS,
    BadInputError,
    NotCarriedOutError,
    StallbenchError,
)
from stallbench.run_folder import RUNS, RunFolder, find_comparison_folder, find_run_folder

app = typer.Typer(
    help="A chaos and degradation test bench for job queues that live in a database.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

dashboards_app = typer.Typer(help="Grafana's dashboards of runs.", no_args_is_help=True)
app.add_typer(dashboards_app, name="dashboards")

ScenarioArgument = Annotated[str, typer.Argument(metavar="SCENARIO", help="A name from `stallbench list`, or a path.")]
VariantOption = Annotated[str | None, typer.Option("--variant", "-v", help="A variant that the scenario names.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one value, by its path in the file; can be repeated."),
]
RunsOption = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where runs are kept.")]


@app.command()
def run(
    scenario: ScenarioArgument,
    variant: VariantOption = None,
    set_: SetOption = None,
    keep_servers: Annotated[
        bool, typer.Option("--keep-servers", help="Leave the servers up until Ctrl-C, to look at them.")
    ] = False,
    dsn: Annotated[
        list[str] | None,
        typer.Option(
            "--dsn",
            metavar="NAME=ADDRESS",
            help="Join a server instead of starting one: primary=postgresql://user@host:5432/database, and replica-1=.. and so on. "
            "The password comes by STALLBENCH_PASSWORD.",
        ),
    ] = None,
    database: Annotated[
        str | None, typer.Option("--database", metavar="NAME", help="The joined database's name again: the bench writes into it.")
    ] = None,
    toxiproxy: Annotated[
        str | None,
        typer.Option("--toxiproxy", metavar="URL", help="Join a Toxiproxy, too; the bench starts its own if not given."),
    ] = None,
    allow_server_changes: Annotated[
        bool,
        typer.Option(
            "--allow-server-changes", help="Let the bench change settings of joined servers, and set them back afterwards."
        ),
    ] = False,
    expose: Annotated[
        str | None,
        typer.Option(
            "--expose",
            metavar="ADDRESS",
            help="Let every process answer Prometheus on this address, 127.0.0.1 or 0.0.0.0; targets/ beside the runs says where.",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Start a Prometheus beside the run, which watches all of it and ends with it.")
    ] = False,
    watch_port: Annotated[
        int | None,
        typer.Option("--watch-port", metavar="PORT", min=1, max=65535, help="Where on 127.0.0.1 it listens; 9090 if not given."),
    ] = None,
    annotate: Annotated[
        str | None,
        typer.Option(
            "--annotate",
            metavar="URL",
            help="Write phases and faults into this Grafana as they happen. The token comes by STALLBENCH_GRAFANA_TOKEN.",
        ),
    ] = None,
    runs: RunsOption = RUNS,
) -> None:
    """Run a scenario on servers of its own, or on servers that it is told to join, and judge it.

    Exit codes: 0 every expectation holds, 1 one fails (or could not be decided), 2 bad input, 3 the run could not be carried
    out, 130 interrupted.

    Examples:
        stallbench run longtx

        stallbench run longtx --variant skip_locked

        stallbench run longtx --set workers.count=4 --set phases.longtx.duration=30s

        stallbench run longtx --watch

        stallbench run baseline --dsn primary=postgresql://me@db.test:5432/queues --database queues
    """
    from stallbench.joined import read_joined_servers
    from stallbench.joined_faults import require_fit_for_joined
    from stallbench.onlookers import read_watching
    from stallbench.run import open_run
    from stallbench.scenario_file import read_scenario
    from stallbench.terminal import RunView

    chosen = read_scenario(scenario, variant=variant, overrides=set_ or [])
    joined = read_joined_servers(
        dsn or [],
        database=database,
        toxiproxy=toxiproxy,
        may_change_servers=allow_server_changes,
        wanted=chosen.database,
    )
    if joined:
        require_fit_for_joined(chosen, joined)
    watching = read_watching(expose=expose, watch=watch, watch_port=watch_port, annotate=annotate)
    folder: RunFolder | None = None
    with RunView() as view:
        view.say(f"{chosen.name}{f', variant {chosen.variant}' if chosen.variant else ''}: {chosen.summary}")
        view.say(f"{chosen.duration_s:.0f} s of phases: {', '.join(phase.name for phase in chosen.phases)}")
        try:
            with open_run(chosen, runs, view, joined, watching) as started:
                folder = started.folder
                view.say(f"records are in {_short(folder.path)}")
                started.carry_out()
                if keep_servers:
                    _keep_servers(started.describe_servers())
        except KeyboardInterrupt:
            kept = f"; what was recorded is kept: stallbench report {_short(folder.path)}" if folder else ""
            print(f"interrupted{kept}", file=sys.stderr)
            sys.exit(EXIT_INTERRUPTED)
        view.say(f"{'the joined servers are left' if joined else 'servers are down'}; making tables, verdict and report")
    _conclude_and_exit(folder.path)


@app.command()
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
            help="Which variants, with commas between; `control` is the scenario without one. All of them if not given.",
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
    """Run variants of a scenario by turns and say which is better, by how much, and whether that is real.

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
    from stallbench.compare import carry_out_runs
    from stallbench.comparison.plan import make_plan

    plan = make_plan(scenario, variants=variants, rounds=repeat, seed=seed, overrides=set_ or [])
    _conclude_comparison_and_exit(carry_out_runs(plan, runs, say=print).path)


@app.command()
def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's or comparison's folder, or its name; `latest` is the newest run.")
    ],
    master: Annotated[str, typer.Option(help="Spark master to compute the tables on.")] = "local[*]",
    runs: RunsOption = RUNS,
) -> None:
    """Make tables, verdict and report of a run again, from its folder alone; of a comparison its report, from its runs' tables.

    Examples:
        stallbench report latest

        stallbench report reports/runs/20261120T101500Z-longtx
    """
    comparison = find_comparison_folder(run, runs)
    if comparison is not None:
        _conclude_comparison_and_exit(comparison)
    _conclude_and_exit(find_run_folder(run, runs).path, master)


@app.command()
def forecast(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run in which a longrunner held the horizon; `latest` is the newest.")
    ],
    rate: Annotated[float | None, typer.Option("--rate", metavar="R", help="Jobs a second; the run's if not given.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", help="The run's if not given.")] = None,
    work: Annotated[
        str | None, typer.Option("--work", metavar="TIME", help="How long a job takes, like 10ms; the run's if not given.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="RUN", help="Another run: forecast its load, and say how far off the forecast was."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the forecast as JSON.")] = False,
    runs: RunsOption = RUNS,
) -> None:
    """Say when a queue falls behind while a transaction holds the horizon, from the cost of dead tuples in one short run.

    Exit codes: 0 there is a forecast (also: it never falls behind), 2 bad input, or a run that cannot say.

    Examples:
        stallbench forecast latest

        stallbench forecast latest --rate 50 --workers 8 --work 10ms
    """
    from stallbench.forecast.command import check_forecast, forecast_run
    from stallbench.forecast.screen import print_check, print_forecast

    folder = find_run_folder(run, runs).path
    if against is None:
        found, check = forecast_run(folder, rate=rate, workers=workers, work=work), None
    elif (rate, workers, work) == (None, None, None):
        found, check = check_forecast(folder, find_run_folder(against, runs).path)
    else:
        raise BadInputError("--against: the load is that run's; leave out --rate, --workers and --work")
    if as_json:
        print(json.dumps(found.as_json() | ({"against": check.as_json()} if check else {}), indent=2))
        return
    print_forecast(found)
    if check:
        print_check(check)


@dashboards_app.command()
def push(
    url: Annotated[str, typer.Option("--url", metavar="URL", help="Where Grafana is, like http://127.0.0.1:3000.")],
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            help="Of a service account; better by STALLBENCH_GRAFANA_TOKEN, for what is typed here shows in process lists.",
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", metavar="URL", help="Make a data source, too: where Grafana finds Prometheus."),
    ] = None,
) -> None:
    """Put the dashboards into a Grafana, in a folder of their own; done again, it changes what has changed.

    Exit codes: 0 they are there, 2 bad input, 3 Grafana refuses or cannot be reached.

    Examples:
        stallbench dashboards push --url http://127.0.0.1:3000

        stallbench dashboards push --url http://127.0.0.1:3000 --prometheus http://127.0.0.1:9090
    """
    from stallbench.onlookers.dashboards import push_dashboards
    from stallbench.onlookers.grafana import read_grafana, require_http

    if prometheus is not None:
        require_http(prometheus, "--prometheus", "http://127.0.0.1:9090")
    for sentence in push_dashboards(read_grafana(url, token, "--url"), prometheus):
        print(sentence)


@app.command("list")
def list_() -> None:
    """List the scenarios and their variants.

    Example:
        stallbench list
    """
    from stallbench.scenario_file import find_scenarios, read_scenario, read_variants

    console = Console(highlight=False, soft_wrap=True)
    for name, path in find_scenarios().items():
        console.print(f"[bold]{name}[/bold]  {escape(read_scenario(str(path), variant=None).summary)}")
        for variant, summary in read_variants(path).items():
            console.print(f"    --variant {variant}  [dim]{escape(summary or '')}[/dim]")


@app.command()
def show(scenario: ScenarioArgument, variant: VariantOption = None, set_: SetOption = None) -> None:
    """Show a scenario as it would run: with its variant, its changes and every default filled in.

    Examples:
        stallbench show longtx

        stallbench show longtx --variant skip_locked --set producers.rate=1000
    """
    from stallbench.scenario_file import read_scenario

    print(read_scenario(scenario, variant=variant, overrides=set_ or []).model_dump_json(indent=2))


@app.command()
def doctor() -> None:
    """Check what the bench needs from this machine, and say what would install what is missing.

    Example:
        stallbench doctor
    """
    from stallbench.doctor import check, render

    findings = check()
    print(render(findings))
    sys.exit(EXIT_PASS if all(finding.ok or not finding.is_needed for finding in findings) else EXIT_NOT_CARRIED_OUT)


@app.command()
def clean(
    runs: RunsOption = RUNS,
    reports: Annotated[bool, typer.Option("--reports", help="Also delete all recorded runs.")] = False,
) -> None:
    """Remove what dead runs left behind: processes, servers and temporary folders. Running runs are not touched.

    Examples:
        stallbench clean

        stallbench clean --reports
    """
    from stallbench.reaper import remove_leftovers

    for sentence in remove_leftovers(runs, delete_runs=reports) or ["nothing was left behind"]:
        print(sentence)


def main() -> NoReturn:
    """Run the command line; whatever a user can cause ends in one message and the design's exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(standalone_mode=True)
    except StallbenchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{where}{error.strerror or error}", file=sys.stderr)
        sys.exit(EXIT_NOT_CARRIED_OUT)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(EXIT_PASS)


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _conclude_and_exit(folder: Path, master: str = "local[*]") -> NoReturn:
    from stallbench.conclude import conclude
    from stallbench.terminal import print_verdict

    verdict = conclude(RunFolder(folder), master=master)
    print_verdict(verdict, _short(folder / "report.html"))
    if verdict.status != "completed":
        sys.exit(EXIT_INTERRUPTED if verdict.status == "aborted" else NotCarriedOutError.exit_code)
    sys.exit(EXIT_PASS if verdict.verdict == "pass" else EXIT_FAIL)


def _conclude_comparison_and_exit(path: Path) -> NoReturn:
    from stallbench.comparison.conclusion import conclude_comparison
    from stallbench.comparison.record import ComparisonFolder
    from stallbench.comparison.screen import print_comparison

    record, results = conclude_comparison(ComparisonFolder(path))
    print_comparison(record, results, _short(path / "report.html"))
    sys.exit(record.exit_code)


def _write_tables_and_exit(scenario: str | None, runs: Path) -> NoReturn:
    from stallbench.comparison.mitigations import write_tables

    for sentence in write_tables(runs, scenario):
        print(sentence)
    sys.exit(EXIT_PASS)


def _keep_servers(lines: list[str]) -> None:
    print("the servers stay up until Ctrl-C:", *lines, sep="\n  ", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("stopping the servers")


def _short(path: Path) -> str:
    """Return ``path`` as seen from here, if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)
