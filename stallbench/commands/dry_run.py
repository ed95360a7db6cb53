"""What `stallbench run --dry-run` prints: the servers, time and disk that a run needs, and what will be judged. Starts nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from stallbench.base.duration import format_duration
from stallbench.engines import ENGINES
from stallbench.queues import find_queue
from stallbench.run.capacity import count_measured_s
from stallbench.scenario.model import Scenario
from stallbench.scenario.requirement import PARTS
from stallbench.scenario.sections import Phase
from stallbench.servers.find_starters import find_starters
from stallbench.studies.soak.disk import SERVER_BYTES, estimate_cycle_bytes, format_bytes
from stallbench.verdicts.expectations import describe_expectation
from stallbench.verdicts.requirements import RULES

_SHOWN_RATE = 100.0
"""Jobs per second, if the load is yet to be measured."""


def find_obstacle(scenario: Scenario) -> str | None:
    """Return why the servers of this machine cannot carry the scenario out; none if they can, or if they would be installed first."""
    return find_starters()[scenario.database.engine].find_obstacle(scenario.database)


def describe_dry_run(scenario: Scenario, runs: Path, external: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what a run needs and does, each with its heading; a continuation has none. ``external``: the addresses of ``--dsn``."""
    yield "queue", f"{scenario.queue.kind}: {find_queue(scenario.queue.kind).summary}"
    yield "servers", _describe_servers(scenario, external)
    yield "load", f"{_describe_load(scenario)}; {scenario.workers.count} workers"
    for number, phase in enumerate(scenario.phases):
        yield "" if number else "phases", _describe_phase(phase)
    yield "time", _describe_time(scenario)
    yield from _describe_disk(scenario, runs, is_external=bool(external))
    yield from _describe_judged(scenario)


def _describe_servers(scenario: Scenario, external: Sequence[str]) -> str:
    if external:
        return f"external, none is started: {', '.join(address.partition('=')[0] for address in external)}"
    database = scenario.database
    title = ENGINES[database.engine].title
    parts = [f"{title}{f' {database.version}' if database.version else ''}: a primary"]
    if database.replicas:
        parts.append(f"{database.replicas} {'replica' if database.replicas == 1 else 'replicas'}")
    if second := find_queue(scenario.queue.kind).second_engine:
        parts += [traits.title for engine, traits in ENGINES.items() if engine == second]
    if database.pooler:
        parts.append(f"PgBouncer, {database.pooler} mode")
    return f"{', '.join(parts)}; started for this run, and stopped after it"


def _describe_load(scenario: Scenario) -> str:
    producers = scenario.producers
    backlog = f", and {producers.backlog:,} at the start" if producers.backlog else ""
    if producers.wants_rate:
        return f"{producers.capacity_share:.0%} of what the workers can do, which is measured first{backlog}"
    return f"{producers.rate:g} jobs/s{backlog}" if producers.rate else f"no jobs during the phases{backlog}"


def _describe_phase(phase: Phase) -> str:
    injected = [f"{each.kind} on {each.on}" for each in phase.longrunners]
    injected += [f"{each.kind} on {each.on}" for each in phase.faults]
    at_most = "" if phase.until == "duration" else "at most "
    what = ", ".join([*injected, *([] if phase.measured else ["not measured"])])
    return f"{phase.name}: {at_most}{format_duration(phase.duration_s)}{f', {what}' if what else ''}"


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


def _describe_judged(scenario: Scenario) -> Iterator[tuple[str, str]]:
    lines = []
    for each in scenario.require:
        aborts = "; the run ends as soon as it cannot be met any more" if each.abort else ""
        lines += [f"required, {each.outcome}: {RULES[part].subject}{aborts}" for part in PARTS[each.outcome]]
    lines += [f"expected: {describe_expectation(each)}" for each in scenario.expect]
    lines.append("every check that applies: of the load, the fault, the records and the queue's promises")
    for number, line in enumerate(lines):
        yield "" if number else "judged", line
