"""Plans a soak: which scenario, for how long, on which servers; and whether that can be soaked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from stallbench.base.duration import format_duration, parse_duration_s
from stallbench.engines.database import Database
from stallbench.errors import BadInputError
from stallbench.injection.faults import find_faults
from stallbench.queues import find_queue
from stallbench.scenario.chaos import list_possible_faults
from stallbench.scenario.command import argument_of, format_run_command, list_changes, list_variant, name_of
from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import Scenario
from stallbench.scenario.validation.external import require_fit_for_external
from stallbench.servers.addresses import ExternalServers
from stallbench.shell_command import format_shell_command
from stallbench.studies.soak.regression import name_soak, require_comparable_soak
from stallbench.verdicts.baseline.against import BaselineChoice
from stallbench.verdicts.baseline.comparability import with_load_of

FindServers = Callable[[Database], ExternalServers | None]
"""Returns the external servers that the user has named; none to start servers. Takes what a scenario wants of them. Raises `BadInputError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    """What is soaked."""

    scenario: Scenario
    for_s: float
    """Length of all phases together."""
    keep: int
    """How many of the last passed cycles keep their records, and how many of the first cycles that did not pass."""
    external: ExternalServers | None
    """The servers, if they are not the bench's own."""
    against: BaselineChoice | None


def plan_soak(
    name_or_path: str,
    for_: str,
    *,
    variant: str | None,
    overrides: Sequence[str],
    keep: int,
    find_servers: FindServers,
    against: BaselineChoice | None = None,
) -> SoakPlan:
    """Plan a soak; raises `BadInputError` if the scenario cannot be soaked for the time ``for_``, or not be compared with the baseline."""
    scenario = read_scenario(name_or_path, variant=variant, overrides=list(overrides))
    require_fit_for_soak(scenario)
    external = find_external(scenario, find_servers)
    for_s = _read_duration_s(for_, scenario)
    if against:
        scenario = with_load_of(against.baseline, name_soak(scenario), scenario)
        require_comparable_soak(against, scenario, for_s)
    return SoakPlan(scenario=scenario, for_s=for_s, keep=keep, external=external, against=against)


def find_external(scenario: Scenario, find_servers: FindServers) -> ExternalServers | None:
    """Return the external servers; none to start servers. Raises `BadInputError` if the scenario cannot run on them."""
    external = find_servers(scenario.database)
    if external:
        require_fit_for_external(scenario, external)
    return external


def _read_duration_s(text: str, scenario: Scenario) -> float:
    """Return the length of the soak; raises `BadInputError` if ``text`` is no duration, or too short for one cycle of ``scenario``."""
    try:
        for_s = parse_duration_s(text, like="8h")
    except ValueError as error:
        raise BadInputError(f'--for is "{text}"; {error}') from None
    if for_s < scenario.duration_s:
        cycle = format_duration(scenario.duration_s)
        raise BadInputError(f"--for is {text}, but one cycle of {scenario.name} takes {cycle}; expected at least {cycle}")
    return for_s


def require_fit_for_soak(scenario: Scenario) -> None:
    """Raise `BadInputError`, with a line for each issue, if ``scenario`` does not leave its servers and processes to the next cycle."""
    if issues := list(_find_issues(scenario)):
        raise BadInputError("\n".join(issues))


def _find_issues(scenario: Scenario) -> Iterator[str]:
    kinds = find_faults()
    for index, phase in enumerate(scenario.phases):
        for path, choice in list_possible_faults(phase):
            if kinds[choice.kind].ends_server:
                yield (
                    f"phases[{index}].{path}: {choice.kind} ends a server, but a soak measures servers that keep running; "
                    f"leave it out, like --set phases.{phase.name}.faults=[], or repeat single runs: {_compare(scenario)}"
                )
    if scenario.producers.kind != "open_loop":
        yield f"producers.kind is {scenario.producers.kind}, which cannot be suspended between cycles; leave it out: --set producers.kind=open_loop"
    if find_queue(scenario.queue.kind).worker_command() is not None:
        yield (
            f"queue.kind is {scenario.queue.kind}, whose workers cannot be suspended between cycles; choose one of the bench's own queues, "
            f"or repeat single runs: {_compare(scenario)}"
        )
    if scenario.external_processes:
        yield "external_processes is true, but external processes cannot be suspended between cycles; leave it out: --set external_processes=false"


def read_scenario_again(recorded: Scenario) -> Scenario:
    """Return the scenario that a soak was begun with; raises `BadInputError` if its file has changed since."""
    scenario = read_scenario(name_of(recorded.name, recorded.file), variant=recorded.variant, overrides=recorded.changes)
    if changed := sorted(key for key in Scenario.model_fields if getattr(scenario, key) != getattr(recorded, key)):
        raise BadInputError(
            f"{recorded.file}: {', '.join(changed)} changed since the soak began; restore the file, or begin another soak"
        )
    return scenario


def format_cycle_command(scenario: Scenario) -> str:
    """Return the command that carries out one cycle, whose seed ``scenario`` has, as a run of its own."""
    return format_run_command(scenario.model_copy(update={"changes": (*scenario.changes, f"seed={scenario.seed}")}))


def format_command(recorded: Scenario, for_s: float, keep: int) -> str:
    """Return the command that repeats the soak."""
    length = ["--for", format_duration(for_s), "--keep", keep]
    return format_shell_command(
        [
            "stallbench",
            "soak",
            argument_of(recorded.name, recorded.file),
            *list_variant(recorded.variant),
            *list_changes(recorded.changes),
            *length,
        ]
    )


def _compare(scenario: Scenario) -> str:
    return format_shell_command(["stallbench", "compare", argument_of(scenario.name, scenario.file)])
