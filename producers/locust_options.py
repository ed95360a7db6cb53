"""The project's options of ``locust -f producers/locustfile.py``, and the target that they select."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from producers.locust_target import GivenDocument, LocustDocument, RunTarget, ScenarioAlone, Target
from stallbench.errors import BadInputError
from stallbench.processes.role import Stop, read_document
from stallbench.processes.role_arguments import GROUP_HELP
from stallbench.queues.load_bounds import MOST_RATE
from stallbench.queues.registration import read_trust, wait_for_run
from stallbench.scenario.file import read_scenario
from stallbench.scenario.locust_bounds import LocustBounds
from stallbench.servers.addresses import read_external_servers

_WAYS = "expected one of --join DIR (a run that accepts external processes), --scenario NAME with --dsn and --database (its queue, without a run)"
_OF_SCENARIO = ("variant", "set", "dsn", "database", "install")


def add_options(parser: Any) -> None:
    """Add the project's options to Locust's parser."""
    for name, form, text in (
        ("--join", "DIR", "join the run in DIR, or the newest run in DIR, that has external_processes = true"),
        ("--group", "NAME", GROUP_HELP),
        ("--scenario", "NAME", "follow the phases of a scenario: its name, or its file"),
        ("--variant", "NAME", "a variant of the scenario"),
        ("--dsn", "URL", "the scenario's database, like postgresql://me@db.test/queues; password in STALLBENCH_PASSWORD"),
        ("--database", "NAME", "repeats the name of the database, to confirm that Locust may write into it"),
        ("--document", "FILE", "used by the bench: a JSON document; - is standard input"),
    ):
        parser.add_argument(name, metavar=form, default=None, help=text, include_in_web_ui=False)
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change the scenario, like queue.kind=que",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--install",
        action="store_true",
        default=False,
        help="create the queue's tables in the database first",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--rate", metavar="JOBS", default="", help="jobs per second of all users together; default: the scenario's rate"
    )
    parser.add_argument(
        "--max-failure-ratio",
        metavar="R",
        type=float,
        default=None,
        help="fail if more requests fail; 0 if not given",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--max-ms",
        metavar="STATISTIC=MS",
        action="append",
        default=[],
        help="fail if a response time is longer: p50, p95, p99, max or mean, like p95=20",
        include_in_web_ui=False,
    )


def find_target(options: argparse.Namespace, stop: Stop) -> Target | None:
    """Return the target that the options select; None if asked to stop while there was no run to join. Raises `BadInputError`."""
    given = [f"--{name}" for name in ("join", "scenario", "document") if getattr(options, name)]
    if len(given) != 1:
        raise BadInputError(f"{' and '.join(given) + ' exclude each other' if given else 'there is no queue'}; {_WAYS}")
    misplaced = [f"--{name}" for name in _OF_SCENARIO if getattr(options, name)]
    if not options.scenario and misplaced:
        raise BadInputError(f"{', '.join(misplaced)} needs --scenario; {given[0]} defines it already")
    if options.document:
        return _read_given(options)
    if options.join:
        return _find_run(options, stop)
    return _read_alone(options)


def _read_given(options: argparse.Namespace) -> GivenDocument:
    if options.master or options.worker or options.processes:
        raise BadInputError("--document is for one process; set producers.count in the scenario for more")
    return GivenDocument(read_document(LocustDocument, options.document))


def _find_run(options: argparse.Namespace, stop: Stop) -> RunTarget | None:
    path = Path(options.join)
    if not path.is_dir():
        raise BadInputError(f"--join {path}: expected one folder: a run's folder, or the folder of all runs")
    folder = wait_for_run(path, stop)
    return None if folder is None else RunTarget(folder, read_trust(options.group))


def _read_alone(options: argparse.Namespace) -> ScenarioAlone:
    scenario = read_scenario(options.scenario, variant=options.variant, overrides=options.set)
    if not scenario.producers.rate and not options.rate:
        if scenario.producers.wants_rate:
            problem = "the load is a share of what the workers can do, which Locust alone does not measure"
        else:
            problem = "producers.rate is 0: Locust has nothing to enqueue"
        raise BadInputError(f"{scenario.file}: {problem}; expected --rate JOBS")
    if options.run_time and options.run_time > scenario.duration_s:
        raise BadInputError(f"--run-time {options.run_time}s: the phases of {scenario.file} end after {scenario.duration_s:g} s")
    servers = read_external_servers(
        [options.dsn] if options.dsn else [],
        database=options.database,
        toxiproxy=None,
        may_change_servers=False,
        wanted=scenario.database.model_copy(update={"replicas": 0}),
    )
    if servers is None:
        raise BadInputError("--scenario needs --dsn and --database: the address and the name of the database")
    return ScenarioAlone(scenario, servers.servers["primary"])


def read_rate(text: str | float, usual: float) -> float:
    """Return the rate from the options, else the target's. Raises `BadInputError`."""
    if text == "":
        return usual
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate <= MOST_RATE:
        raise BadInputError(f"--rate {text}: expected jobs per second, more than 0 and at most {MOST_RATE}")
    return rate


def read_bounds(options: argparse.Namespace, of_target: LocustBounds) -> LocustBounds:
    """Return the target's bounds, overridden by those of the options. Raises `BadInputError`."""
    values: dict[str, Any] = of_target.model_dump()
    if options.max_failure_ratio is not None:
        values["max_failure_ratio"] = options.max_failure_ratio
    for bound in options.max_ms:
        statistic, _, value = bound.partition("=")
        values["at_most_ms"][statistic] = value
    try:
        return LocustBounds.model_validate(values)
    except ValidationError as error:
        issue = error.errors(include_input=True, include_url=False)[0]
        option = "--max-failure-ratio" if issue["loc"][0] == "max_failure_ratio" else "--max-ms"
        raise BadInputError(f"{option}: {issue['input']!r} is invalid: {issue['msg'].lower()}") from error
