"""Validates the maintenance of a scenario: kinds, options and targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.base.validation_issue import KeyPath, ValidationIssue, show_value
from stallbench.injection.choices import MaintenanceChoice
from stallbench.injection.maintenance import find_maintenance_kinds
from stallbench.queues import NoQueueError, Queue, find_queue
from stallbench.scenario.validation.injections import find_choices, list_servers, make_kind_issue, make_target_issue
from stallbench.scenario.validation.keys_and_values import find_key_and_value_issues
from stallbench.scenario.validation.raw_scenario import RawScenario
from stallbench.suggestion import did_you_mean


def find_maintenance_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find the issues of all maintenance tasks. Empty if the servers are invalid: then it is unknown on which servers tasks can run."""
    if content.database is None:
        return
    engine, servers = content.database.engine, list_servers(content.database.replicas)
    for path, choice in find_choices(content.raw, "maintenance", MaintenanceChoice):
        kinds = {name: kind for name, kind in find_maintenance_kinds().items() if engine in kind.engines}
        if choice.kind not in kinds:
            yield make_kind_issue(path, choice.kind, kinds, why="" if kinds else f", but no maintenance runs on {engine}")
            continue
        kind = kinds[choice.kind]
        keys = choice.list_keys()
        yield from find_key_and_value_issues(kind.options_type, choice.options, under=path, of=choice.kind, also_allowed=keys)
        fit = [name for name, role in servers.items() if role in kind.roles]
        if choice.on not in fit:
            yield make_target_issue(path, choice.on, fit)
        yield from _find_phase_issues(content, path, choice)
        if (queue := _find_queue(content)) and (problem := kind.find_issue(queue)):
            yield ValidationIssue((*path, "kind"), problem)


def _find_queue(content: RawScenario) -> type[Queue[Any]] | None:
    try:
        return find_queue(content.queue.kind) if content.queue else None
    except NoQueueError:
        return None


def _find_phase_issues(content: RawScenario, path: KeyPath, choice: MaintenanceChoice) -> Iterator[ValidationIssue]:
    phases = [phase["name"] for phase in content.items("phases") if isinstance(phase.get("name"), str)]
    if choice.phase is not None and choice.phase not in phases:
        allowed = f"expected one of {', '.join(phases)}{did_you_mean(choice.phase, phases)}"
        yield ValidationIssue((*path, "phase"), f" is {show_value(choice.phase)}; {allowed}")
    if choice.after_s and choice.phase is None:
        yield ValidationIssue((*path, "after"), " is given without a phase; add phase, or leave it out")
