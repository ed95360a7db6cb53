"""What `stallbench run --dry-run` prints: the servers, time and disk that a run needs, and what will be judged. Starts nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from stallbench.base.number_text import format_bytes
from stallbench.engines import ENGINES
from stallbench.run.capacity import count_measured_s
from stallbench.scenario.description import describe_experiment, describe_judged
from stallbench.scenario.model import Scenario
from stallbench.studies.soak.disk import SERVER_BYTES, estimate_cycle_bytes

_SHOWN_RATE = 100.0
"""Jobs per second, if the load is yet to be measured."""


def find_obstacle(scenario: Scenario) -> str | None:
    """Return why the servers of this machine cannot carry the scenario out; none if they can, or if they would be installed first."""
    return ENGINES[scenario.database.engine].starter().find_obstacle(scenario.database)


def describe_dry_run(scenario: Scenario, runs: Path, external: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what a run needs and does, each with its heading; a continuation has none. ``external``: the addresses of ``--dsn``."""
    addresses = ", ".join(address.partition("=")[0] for address in external)
    yield from describe_experiment(scenario, f"external, none is started: {addresses}" if external else "")
    yield "time", _describe_time(scenario)
    yield from _describe_disk(scenario, runs, is_external=bool(external))
    yield from describe_judged(scenario)


def _describe_time(scenario: Scenario) -> str:
    at_most = "at most " if any(phase.until != "duration" for phase in scenario.phases) else ""
    longer = " (or longer, until enough jobs were due)" if any(phase.jobs for phase in scenario.phases) else ""
    measured = ""
    if scenario.producers.wants_rate:
        measured = f", and {count_measured_s(scenario):.0f} s or more before them to measure what the workers can do"
    return (
        f"{at_most}{scenario.duration_s:.0f} s of phases{longer}{measured}; the start of the servers and the tables come on top"
    )


def _describe_disk(scenario: Scenario, runs: Path, *, is_external: bool) -> Iterator[tuple[str, str]]:
    if scenario.producers.wants_rate:
        rated = scenario.model_copy(update={"producers": scenario.producers.model_copy(update={"rate": _SHOWN_RATE})})
        needed = (
            f"about {format_bytes(estimate_cycle_bytes(rated))} at {_SHOWN_RATE:g} jobs/s, and more in proportion to the load"
        )
    else:
        needed = f"about {format_bytes(estimate_cycle_bytes(scenario))}"
    yield "disk", f"records: {needed}; {_describe_free(runs)}"
    if not is_external:
        servers = 1 + scenario.database.replicas
        yield "", f"servers: up to {format_bytes(servers * SERVER_BYTES)}; {_describe_free(Path(tempfile.gettempdir()))}"


def _describe_free(folder: Path) -> str:
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return f"{format_bytes(shutil.disk_usage(existing).free)} are free in {folder}"
