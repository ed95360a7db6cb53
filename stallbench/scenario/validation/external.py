"""Finds, before anything starts, what a scenario needs but external servers cannot provide."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.errors import BadInputError
from stallbench.injection.faults import find_faults
from stallbench.injection.maintenance import find_maintenance_kinds
from stallbench.queues import find_queue
from stallbench.queues.library_queue import LibraryQueue
from stallbench.scenario.chaos import list_possible_faults
from stallbench.scenario.model import Scenario
from stallbench.servers.addresses import ExternalServers


def require_fit_for_external(scenario: Scenario, servers: ExternalServers) -> None:
    """Raise `BadInputError`, with a line for each issue, if ``scenario`` needs servers that the bench starts itself."""
    if issues := list(_find_issues(scenario, servers)):
        raise BadInputError("\n".join(issues))


def _find_issues(scenario: Scenario, servers: ExternalServers) -> Iterator[str]:
    database = scenario.database
    for key, is_asked in (
        ("version", database.version is not None),
        ("port", database.port is not None),
        ("replication_slot", database.replication_slot),
        ("synchronous", database.synchronous),
        ("pooler", database.pooler is not None),
        ("small_disk", database.small_disk is not None),
        ("xids_left", database.xids_left is not None),
        ("volatile_cache", database.volatile_cache),
    ):
        if is_asked:
            yield f"database.{key}: is only for servers that the bench starts; leave it out with --dsn"
    second = find_queue(scenario.queue.kind).second_engine
    if second is not None:
        yield f"queue.kind: {scenario.queue.kind} also needs a {second} server, which the bench starts only beside its own servers; leave out --dsn"
    if any(endpoint.parameters for endpoint in servers.servers.values()):
        queue = find_queue(scenario.queue.kind)
        if issubclass(queue, LibraryQueue):
            yield (
                f"queue.kind: {scenario.queue.kind} connects by a driver of its own, to which the bench cannot pass the parameters of --dsn or libpq's "
                "environment (PGSSLMODE, ..): it would connect without what they demand; leave them out, or choose a queue of the bench"
            )
    kinds = find_faults()
    for index, phase in enumerate(scenario.phases):
        for within, choice in list_possible_faults(phase):
            kind = kinds[choice.kind]
            allowed = kind.on_external
            path = f"phases[{index}].{within}"
            if allowed == "never":
                yield f"{path}: {choice.kind} affects a whole server, which the bench does only to servers that it starts; leave out --dsn"
            elif allowed == "if allowed" and not servers.may_change_servers:
                yield f"{path}: {choice.kind} affects all clients of {choice.on}; to allow that, add --allow-server-changes"
            if found := kind.find_external_issue(kind.options_type.model_validate(choice.options), choice.on):
                key, problem = found
                yield f"{path}.{key}{problem}"
    for index, task in enumerate(scenario.maintenance):
        if find_maintenance_kinds()[task.kind].on_external == "never":
            yield f"maintenance[{index}]: {task.kind} affects other clients, which the bench does only on servers that it starts; leave out --dsn"
