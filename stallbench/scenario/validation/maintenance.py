"""Validates the maintenance of a scenario: kinds, options and targets."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.maintenance import find_maintenance_kinds
from stallbench.scenario.choices import MaintenanceChoice
from stallbench.scenario.validation.content import Content
from stallbench.scenario.validation.injections import find_choices, list_servers, make_kind_issue, make_target_issue
from stallbench.scenario.validation.issue import ValidationIssue
from stallbench.scenario.validation.keys_and_values import find_key_and_value_issues


def find_maintenance_issues(content: Content) -> Iterator[ValidationIssue]:
    """Find the issues of all maintenance tasks; without valid servers it is not clear what they can run on."""
    if content.database is None:
        return
    engine, servers = content.database.engine, list_servers(content.database.replicas)
    kinds = {name: kind for name, kind in find_maintenance_kinds().items() if engine in kind.engines}
    for path, choice in find_choices(content.raw, "maintenance", MaintenanceChoice):
        if choice.kind not in kinds:
            yield make_kind_issue(path, choice.kind, kinds, why="" if kinds else f", but no maintenance runs on {engine}")
            continue
        kind = kinds[choice.kind]
        keys = choice.list_keys()
        yield from find_key_and_value_issues(kind.options_type, choice.options, under=path, of=choice.kind, also_allowed=keys)
        fit = [name for name, role in servers.items() if role in kind.roles]
        if choice.on not in fit:
            yield make_target_issue(path, choice.on, fit)
