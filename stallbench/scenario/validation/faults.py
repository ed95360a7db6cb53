"""Validates the faults of a scenario: their kinds, options, targets and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stallbench.base.validation_issue import KeyPath, ValidationIssue, show_value
from stallbench.injection.choices import FaultChoice
from stallbench.injection.faults import Fault, FaultPlace, FaultTarget, find_faults
from stallbench.queues import NoQueueError, find_queue
from stallbench.scenario.sections import Phase
from stallbench.scenario.validation.injections import find_choices, list_servers, make_kind_issue, make_target_issue
from stallbench.scenario.validation.keys_and_values import find_key_and_value_issues
from stallbench.scenario.validation.queue import has_scheduler
from stallbench.scenario.validation.raw_scenario import RawScenario, valid


def find_fault_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find the issues of all faults. Empty if servers, workers or producers are invalid: then it is unknown what a fault can reach."""
    if not (content.database and content.workers and content.producers):
        return
    engine, targets = content.database.engine, list_targets(content)
    for index, phase in enumerate(content.items("phases")):
        for path, choice in find_choices(phase, "faults", FaultChoice, under=("phases", index)):
            kinds = {name: kind for name, kind in find_faults().items() if engine in kind.engines}
            if choice.kind not in kinds:
                why = f", which does not exist on {engine}" if choice.kind in find_faults() else ""
                yield make_kind_issue(path, choice.kind, kinds, why=why)
                continue
            kind = kinds[choice.kind]
            yield from find_choice_issues(path, choice, kind, targets, content, keys=choice.list_keys())
            yield from _find_timing_issues(path, choice, phase)
            if kind.needs_of_database and not content.table("database").get(kind.needs_of_database[0]):
                key, allowed = kind.needs_of_database
                yield ValidationIssue(("database", key), f" is missing, but {choice.kind} needs it; expected {allowed}")


def find_choice_issues(
    path: KeyPath,
    choice: FaultChoice,
    kind: type[Fault[Any]],
    targets: Mapping[FaultTarget, Sequence[str]],
    content: RawScenario,
    *,
    keys: Sequence[str],
) -> Iterator[ValidationIssue]:
    """Find the issues of a choice's options and target. ``keys``: the keys that are allowed in addition to the options."""
    if kind.passes_pooler and content.table("database").get("pooler"):
        problem = (
            f" is {show_value(choice.kind)}, which leads the clients past the pooler of the whole run; leave out one of the two"
        )
        yield ValidationIssue((*path, "kind"), problem)
    of_options = find_key_and_value_issues(kind.options_type, choice.options, under=path, of=choice.kind, also_allowed=keys)
    yield from of_options
    of_target = list(_find_target_issues(path, choice, kind, targets))
    yield from of_target
    if not of_options and not of_target:
        yield from _find_place_issues(path, choice, kind, content)


def list_targets(content: RawScenario) -> dict[FaultTarget, list[str]]:
    """Return what a fault can reach in this scenario, by the type of target."""
    replicas = content.database.replicas if content.database else 0
    workers = content.workers.count if content.workers else 0
    producers = content.producers.count if content.producers and content.producers.has_load else 0
    servers = list_servers(replicas)
    names = [name for name, role in servers.items() if role == "replica"]
    return {
        "server": list(servers),
        "primary": ["primary"],
        "replica": names,
        "link": [f"replication-{name}" for name in names],
        "worker": _list_processes("worker", workers),
        "producer": _list_processes("producer", producers),
        "scheduler": ["scheduler"] if has_scheduler(content) else [],
    }


def _list_processes(role: str, count: int) -> list[str]:
    """Return the name for all processes of a role, then the name of each process."""
    return [f"{role}s", *(f"{role}-{number}" for number in range(1, count + 1))] if count else []


def _find_target_issues(
    path: KeyPath, choice: FaultChoice, kind: type[Fault[Any]], targets: Mapping[FaultTarget, Sequence[str]]
) -> Iterator[ValidationIssue]:
    fit = [name for target in kind.targets for name in targets[target]]
    if not fit:
        problem = f" is {show_value(choice.on)}; expected a {' or '.join(kind.targets)}, but the scenario has none"
        yield ValidationIssue((*path, "on"), problem)
    elif choice.on not in fit:
        yield make_target_issue(path, choice.on, fit)


def _find_place_issues(
    path: KeyPath, choice: FaultChoice, kind: type[Fault[Any]], content: RawScenario
) -> Iterator[ValidationIssue]:
    try:
        queue = find_queue(content.queue.kind) if content.queue else None
    except NoQueueError:
        return
    if queue is None:
        return
    by_locust = content.producers is not None and content.producers.by_locust
    place = FaultPlace(
        on=choice.on, queue=queue, queue_options=content.queue.options if content.queue else {}, by_locust=by_locust
    )
    if found := kind.find_issue(kind.options_type.model_validate(choice.options), place):
        key, problem = found
        yield ValidationIssue((*path, key), problem)


def _find_timing_issues(path: KeyPath, choice: FaultChoice, phase: Mapping[str, Any]) -> Iterator[ValidationIssue]:
    around = valid(Phase, {**phase, "faults": [], "longrunners": []})
    if around is None:
        return
    if choice.after_s >= around.duration_s:
        problem = f" is {choice.after_s:g} s, but the phase ends after {around.duration_s:g} s; expected less"
        yield ValidationIssue((*path, "after"), problem)
    elif choice.for_s is not None and choice.after_s + choice.for_s > around.duration_s:
        longest_s = around.duration_s - choice.after_s
        problem = f" is {choice.for_s:g} s, which ends after the phase; expected at most {longest_s:g} s, or leave it out"
        yield ValidationIssue((*path, "for"), problem)
