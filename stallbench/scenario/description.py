"""A scenario in lines for a person: what happens, on what, for how long, and what is asked of it. Needs no bench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stallbench.base.duration import format_duration
from stallbench.base.number_text import format_count, format_plural
from stallbench.engines import ENGINES
from stallbench.injection.choices import FaultChoice
from stallbench.measures import MEASURES
from stallbench.queues import find_queue
from stallbench.scenario.command import argument_of, format_run_command
from stallbench.scenario.expectation import Expectation
from stallbench.scenario.model import Scenario
from stallbench.scenario.requirement import PARTS, SUBJECTS
from stallbench.scenario.sections import Phase
from stallbench.shell_command import format_shell_command

Line = tuple[str, str]
"""A heading, which is empty if the line goes on with the one before, and a text."""
_ENDS: Mapping[str, str] = {
    "drained": "until the queue is empty",
    "caught_up": "until the queue has caught up",
    "fallen_behind": "until the queue has fallen behind",
}


def describe_scenario(scenario: Scenario, variants: Mapping[str, str]) -> Iterator[Line]:
    """Yield what happens, what is asked, and how to run it. ``variants``: the summary of each by its name."""
    yield from describe_experiment(scenario)
    yield from describe_judged(scenario)
    others = {name: summary for name, summary in variants.items() if name != scenario.variant}
    yield from _as_lines("variants", [f"{name}: {summary}" for name, summary in others.items()])
    file = argument_of(scenario.name, scenario.file)
    commands = [f"{format_run_command(scenario)}   (--dry-run: what it needs, without starting anything)"]
    if variants and scenario.variant is None and not scenario.changes:
        commands.append(f"{format_shell_command(['stallbench', 'compare', file])}   (its variants, one run after the other)")
    yield from _as_lines("run it", commands)


def describe_experiment(scenario: Scenario, servers: str = "") -> Iterator[Line]:
    """Yield queue, servers, load, phases and maintenance. ``servers``: what is used in place of the scenario's."""
    yield "queue", f"{scenario.queue.kind}: {find_queue(scenario.queue.kind).summary}"
    yield "servers", servers or _describe_servers(scenario)
    yield "load", f"{_describe_load(scenario)}; {format_plural(scenario.workers.count, 'worker')}"
    yield from _as_lines("phases", [_describe_phase(phase) for phase in scenario.phases])
    tasks = [f"{each.kind} on {each.on}{f', in {each.phase}' if each.phase else ''}" for each in scenario.maintenance]
    yield from _as_lines("meanwhile", tasks)


def describe_judged(scenario: Scenario) -> Iterator[Line]:
    """Yield what is required and expected."""
    lines = []
    for each in scenario.require:
        aborts = "; the run ends as soon as it cannot be met any more" if each.abort else ""
        lines += [f"required, {each.outcome}: {SUBJECTS[part]}{aborts}" for part in PARTS[each.outcome]]
    for expectation in scenario.expect:
        because = f" ({expectation.because})" if expectation.because else ""
        lines.append(f"expected: {describe_expectation(expectation)}{because}")
    lines.append("every check that applies: of the load, the fault, the records and the queue's promises")
    yield from _as_lines("judged", lines)


def describe_expectation(expectation: Expectation) -> str:
    """Return what must hold, in one line."""
    measure, _, statistic = expectation.metric.partition(".")
    bounds = describe_bounds(expectation, MEASURES[measure].unit_of(statistic))
    return f"{expectation.metric} in {expectation.phase or 'the whole run'} is {bounds}"


def describe_bounds(expectation: Expectation, unit: str) -> str:
    """Return the bounds of an expectation, like ``at least 5 times baseline``."""
    of_what = f" times {expectation.relative_to}" if expectation.relative_to else f" {unit}".rstrip()
    bounds = [
        f"{words} {bound:,.10g}{of_what}"
        for bound, words in ((expectation.at_least, "at least"), (expectation.at_most, "at most"))
        if bound is not None
    ]
    return " and ".join(bounds)


def _describe_servers(scenario: Scenario) -> str:
    database = scenario.database
    title = ENGINES[database.engine].title
    parts = [f"{title}{f' {database.version}' if database.version else ''}: a primary"]
    if database.replicas:
        parts.append(format_plural(database.replicas, "replica"))
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
    lasts = f"{'' if phase.until == 'duration' else 'at most '}{format_duration(phase.duration_s)}"
    parts = [f"{each.kind} on {each.on}" for each in phase.longrunners]
    parts += [_describe_fault(each) for each in phase.faults]
    parts += [f"for {format_count(phase.jobs)} jobs"] if phase.jobs else []
    parts += [_ENDS[phase.until]] if phase.until in _ENDS else []
    parts += [] if phase.measured else ["not measured"]
    return f"{phase.name}: {', '.join([lasts, *parts])}"


def _describe_fault(fault: FaultChoice) -> str:
    after = f" after {format_duration(fault.after_s)}" if fault.after_s else ""
    lasts = f" for {format_duration(fault.for_s)}" if fault.for_s is not None else ""
    return f"{fault.kind} on {fault.on}{after}{lasts}"


def _as_lines(heading: str, texts: Sequence[str]) -> Iterator[Line]:
    for number, text in enumerate(texts):
        yield "" if number else heading, text
