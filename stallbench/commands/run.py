"""`stallbench run`: runs one scenario and judges it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from stallbench.base.storage.address import is_address
from stallbench.commands.endings import conclude_and_exit, index_renewed, shorten
from stallbench.commands.options import (
    AgainstOption,
    AllowServerChangesOption,
    DatabaseOption,
    DsnOption,
    JudgeOption,
    RunsOrAddressOption,
    ScenarioArgument,
    SetOption,
    ToleranceOption,
    ToxiproxyOption,
    VariantOption,
    find_against,
    list_overrides,
)
from stallbench.errors import (
    EXIT_INTERRUPTED,
    EXIT_PASS,
    BadInputError,
    NotCarriedOutError,
)
from stallbench.run.folder import RUNS, RunFolder
from stallbench.shell_command import format_shell_command
from stallbench.visible_text import say

if TYPE_CHECKING:
    from stallbench.scenario.model import Scenario
    from stallbench.verdicts.baseline.baseline_file import Baseline


def run(
    scenario: ScenarioArgument,
    variant: VariantOption = None,
    set_: SetOption = None,
    judge: JudgeOption = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Start nothing: say which servers, time and disk the run needs, and what will be judged."),
    ] = False,
    keep_servers: Annotated[
        bool,
        typer.Option("--keep-servers", help="Keep the servers running after the run until Ctrl-C, so that you can inspect them."),
    ] = False,
    dsn: DsnOption = None,
    database: DatabaseOption = None,
    toxiproxy: ToxiproxyOption = None,
    allow_server_changes: AllowServerChangesOption = False,
    expose: Annotated[
        str | None,
        typer.Option(
            "--expose",
            metavar="ADDRESS",
            help="Expose Prometheus metrics of every process on this address, 127.0.0.1 or 0.0.0.0. The ports are listed in targets/ beside the runs.",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Start a Prometheus that scrapes the whole run and stops with it.")
    ] = False,
    watch_port: Annotated[
        int | None,
        typer.Option(
            "--watch-port",
            metavar="PORT",
            min=1,
            max=65535,
            help="With --watch: the port of Prometheus on 127.0.0.1. Default: 9090.",
        ),
    ] = None,
    annotate: Annotated[
        str | None,
        typer.Option(
            "--annotate",
            metavar="URL",
            help="Write an annotation to this Grafana for each phase, longrunner and fault. The token is read from STALLBENCH_GRAFANA_TOKEN.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME",
            help="With external_processes = true: also the members of this group of the machine may take part. Default: only your own user.",
        ),
    ] = None,
    keep_text: Annotated[
        bool | None,
        typer.Option(
            "--keep-text/--no-keep-text",
            help="Keep the event logs as text beside the sealed records, or remove those of which the sealed records hold every line. "
            "Default: keep up to 1 GB.",
        ),
    ] = None,
    against: AgainstOption = None,
    tolerance: ToleranceOption = None,
    runs: RunsOrAddressOption = str(RUNS),
) -> None:
    """Run a scenario and judge it, on servers that the bench starts or on external servers (--dsn).

    Exit codes: 0 every expectation, requirement and check passes, 1 one fails or is unknown, 2 bad input, 3 the run could not be carried out, or it
    passed and could not be uploaded, or something that it created stays on external servers, 130 interrupted.

    For example:

        stallbench run longtx
        stallbench run longtx --variant skip_locked
        stallbench run longtx --set workers.count=4 --set phases.longtx.duration=30s
        stallbench run longtx --set queue.kind=app/queue.py:MyQueue
        stallbench run longtx --judge survives
        stallbench run longtx --dry-run
        stallbench run longtx --against baseline.json --tolerance 30%
        stallbench run longtx --watch
        stallbench run longtx --runs s3://bucket/runs
        stallbench run baseline --dsn primary=postgresql://me@db.test:5432/queues --database queues
    """
    from stallbench.pipeline.process import PipelineProcess
    from stallbench.run.capacity import with_measured_load
    from stallbench.run.external_processes import require_group
    from stallbench.run.observers import read_observer_options
    from stallbench.run.opening import open_run
    from stallbench.run.upload import open_for_upload
    from stallbench.run.view import RunView
    from stallbench.scenario.file import read_scenario
    from stallbench.scenario.validation.external import require_fit_for_external
    from stallbench.servers.addresses import read_external_servers
    from stallbench.verdicts.baseline.against import write_against

    chosen = read_scenario(scenario, variant=variant, overrides=list_overrides(set_, judge))
    if dry_run:
        _print_dry_run_and_exit(chosen, RUNS if is_address(runs) else Path(runs), dsn or [])
    external_servers = read_external_servers(
        dsn or [],
        database=database,
        toxiproxy=toxiproxy,
        may_change_servers=allow_server_changes,
        wanted=chosen.database,
    )
    if external_servers:
        require_fit_for_external(chosen, external_servers)
        _require_own_servers(keep_servers=keep_servers)
    observer_options = read_observer_options(expose=expose, watch=watch, watch_port=watch_port, annotate=annotate)
    if group is not None:
        require_group(group, chosen)
    store = open_for_upload(runs) if is_address(runs) else None
    own_runs = RUNS if store else Path(runs)
    compared = find_against(against, tolerance, own_runs)
    if compared:
        chosen = _make_comparable(chosen, compared.baseline)
    folder: RunFolder | None = None
    with index_renewed(own_runs), PipelineProcess() as pipeline:
        with RunView() as view:
            view.say(f"{chosen.name}{f', variant {chosen.variant}' if chosen.variant else ''}: {chosen.summary}")
            try:
                chosen = with_measured_load(chosen, view.say, own_runs, external_servers)
                at_most = "at most " if any(phase.until != "duration" for phase in chosen.phases) else ""
                view.say(f"{at_most}{chosen.duration_s:.0f} s of phases: {', '.join(phase.name for phase in chosen.phases)}")
                with open_run(chosen, own_runs, view, external_servers, observer_options, group=group) as started:
                    folder = started.folder
                    if compared:
                        write_against(folder.path, compared)
                    view.say(f"the records are in {shorten(folder.path)}")
                    if not keep_servers:
                        started.when_measured = partial(pipeline.prepare, folder)
                    started.carry_out()
                    if keep_servers:
                        _keep_servers(started.cluster.describe_access())
            except KeyboardInterrupt:
                say(f"interrupted{_describe_kept(folder, to=runs if store else None)}", to=sys.stderr)
                sys.exit(EXIT_INTERRUPTED)
            view.say(
                f"{'the external servers keep running' if external_servers else 'the servers are stopped'}; making the tables, verdict and report"
            )
        conclude_and_exit(
            folder.path, view=view, pipeline=pipeline, keep_text=keep_text, move_to=store, is_restored=started.is_restored
        )


def _require_own_servers(*, keep_servers: bool) -> None:
    if keep_servers:
        raise BadInputError(
            "--keep-servers is only for servers that the bench starts; leave it out: external servers (--dsn) keep running anyway"
        )


def _print_dry_run_and_exit(scenario: Scenario, runs: Path, external: Sequence[str]) -> NoReturn:
    from stallbench.commands.dry_run import describe_dry_run, find_obstacle
    from stallbench.commands.scenarios import print_description

    print_description(scenario, describe_dry_run(scenario, runs, external))
    if not external and (obstacle := find_obstacle(scenario)):
        raise NotCarriedOutError(f"this machine cannot run it: {obstacle}")
    sys.exit(EXIT_PASS)


def _describe_kept(folder: RunFolder | None, *, to: str | None) -> str:
    """Say how to go on with an interrupted run: its records may be in ``folder``, and its folder was to be uploaded ``to`` an address."""
    if folder is None:
        return ""
    name = shorten(folder.path)
    kept = f"; the records are kept: {format_shell_command(['stallbench', 'report', name])}"
    return kept + (f"; they are not uploaded: {format_shell_command(['stallbench', 'upload', name, to])}" if to else "")


def _make_comparable(scenario: Scenario, baseline: Baseline) -> Scenario:
    """Return the scenario with the load of the baseline; raises `BadInputError` if the run could not be compared with it."""
    from stallbench.scenario.model import CONTROL
    from stallbench.verdicts.baseline.comparability import require_comparable, with_load_of

    variant = scenario.variant or CONTROL
    scenario = with_load_of(baseline, variant, scenario)
    require_comparable(baseline, {variant: scenario})
    return scenario


def _keep_servers(lines: list[str]) -> None:
    say("the servers keep running until Ctrl-C:", *lines, sep="\n  ", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        say("stopping the servers")
