"""What a scenario asks for that servers cannot give which the bench has joined: told before anything is started."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.errors import BadInputError
from stallbench.external.addresses import ExternalServers
from stallbench.faults import find_faults
from stallbench.maintenance import find_maintenance_kinds
from stallbench.queues import find_queue
from stallbench.scenario.model import Scenario


def require_fit_for_external(scenario: Scenario, joined: ExternalServers) -> None:
    """Raise `BadInputError`, a line for each fault, if ``scenario`` needs servers of the bench's own."""
    if faults := list(_find_issues(scenario, joined)):
        raise BadInputError("\n".join(faults))


def _find_issues(scenario: Scenario, joined: ExternalServers) -> Iterator[str]:
    database = scenario.database
    for key, is_asked in (
        ("version", database.version is not None),
        ("port", database.port is not None),
        ("replication_slot", database.replication_slot),
        ("synchronous", database.synchronous),
        ("small_disk", database.small_disk is not None),
    ):
        if is_asked:
            yield f"database.{key}: is for servers that the bench starts; with --dsn leave it out: --set database.{key}=.."
    second = find_queue(scenario.queue.kind).second_engine
    if second is not None:
        yield f"queue.kind: {scenario.queue.kind} needs a {second} beside its server, which the bench starts only with servers of its own; leave out --dsn"
    kinds = find_faults()
    for index, phase in enumerate(scenario.phases):
        for place, choice in enumerate(phase.faults):
            allowed = kinds[choice.kind].on_external
            path = f"phases[{index}].faults[{place}]"
            if allowed == "never":
                yield f"{path}: {choice.kind} strikes a server itself, which the bench does only to servers that it has started; leave out --dsn"
            elif allowed == "if allowed" and not joined.may_change_servers:
                yield f"{path}: {choice.kind} is felt by everybody on {choice.on}; say --allow-server-changes if that is meant"
    for index, task in enumerate(scenario.maintenance):
        if find_maintenance_kinds()[task.kind].on_external == "never":
            yield f"maintenance[{index}]: {task.kind} ends sessions of others, which the bench does only on servers that it has started; leave out --dsn"
