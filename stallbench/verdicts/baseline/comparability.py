"""Which runs may be compared with a baseline: what must be the same, and which differences make only some figures incomparable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines import ENGINES
from stallbench.errors import BadInputError
from stallbench.run.record import HostRecord, RunRecord
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.verdicts.baseline.baseline_file import Baseline, BaselineMachine, BaselineVariant, Kind

_SECTIONS = {"database", "queue", "producers", "workers", "external_processes", "collectors", "maintenance", "phases"}
"""The sections of a scenario that decide what is measured. Its seed and its expectations may differ."""
_OF_THE_MACHINE = {"database.port"}
_SHOWN = 3
TITLES: Mapping[Kind, str] = {
    "run": "runs (stallbench run, compare or matrix)",
    "limit": "searches for a limit (stallbench limit)",
    "soak": "soaks (stallbench soak)",
}
"""What the figures of a baseline are of."""

Conditions = Mapping[str, str | float | bool | None]


def find_conditions(scenario: Scenario) -> dict[str, str | float | bool | None]:
    """Return load, phases, queue and servers of a scenario, by key path, without what has its default."""
    content = scenario.model_dump(mode="json", exclude_defaults=True, include=_SECTIONS)
    flat = dict(_flatten("", content))
    flat["phases"] = ", ".join(phase.name for phase in scenario.phases)
    flat["queue.kind"] = shorten_kind(scenario.queue.kind)
    return {key: value for key, value in sorted(flat.items()) if key not in _OF_THE_MACHINE}


def shorten_kind(kind: str) -> str:
    """Return the kind of a queue without the folder of its file: the same file may lie elsewhere on another machine."""
    if kind.startswith(LIBRARY_PREFIX):
        return LIBRARY_PREFIX + PurePath(kind.removeprefix(LIBRARY_PREFIX)).name
    file, colon, class_name = kind.rpartition(":")
    return f"{PurePath(file).name}{colon}{class_name}" if colon else kind


def _flatten(path: str, content: Any) -> Iterator[tuple[str, str | float | bool | None]]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _flatten(f"{path}.{key}" if path else str(key), value)
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            named = isinstance(value, Mapping) and "name" in value
            content_of = {key: each for key, each in value.items() if key != "name"} if named else value
            yield from _flatten(f"{path}.{value['name'] if named else index}", content_of)
    else:
        yield path, content


def describe_differences(now: Conditions, then: Conditions, where: str = "in the baseline") -> str:
    """Return which conditions differ from those that were ``then``, ``where``; empty if none does."""
    differing = [key for key in sorted(now.keys() | then.keys()) if now.get(key) != then.get(key)]
    shown = [f"{key} is {_show(now, key)}, {where} {_show(then, key)}" for key in differing[:_SHOWN]]
    further = f"; and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
    return "; ".join(shown) + further


def _show(conditions: Conditions, key: str) -> str:
    if key not in conditions:
        return "the default"
    value = conditions[key]
    return f"{value:g}" if isinstance(value, float) else str(value)


def require_comparable(baseline: Baseline, scenarios: Mapping[str, Scenario]) -> None:
    """Raise `BadInputError` if none of ``scenarios``, by variant, or one with other conditions, can be compared with the baseline.

    A variant that the baseline does not have is allowed if it has another one.
    """
    name = next(iter(scenarios.values())).name
    require_same_conditions(baseline, "run", name, {variant: find_conditions(each) for variant, each in scenarios.items()})


def require_same_conditions(baseline: Baseline, kind: Kind, scenario: str, conditions: Mapping[str, Conditions]) -> None:
    """Raise `BadInputError` if what is about to be measured cannot be compared with the baseline.

    ``kind``: what will be measured. ``conditions``: of each variant. A variant that the baseline does not have is allowed if it has another one.
    """
    if obstacle := find_kind_obstacle(baseline, kind):
        raise BadInputError(f"--against: {obstacle}; write one: stallbench baseline NAME --output FILE")
    if scenario != baseline.scenario:
        raise BadInputError(f"--against: the baseline is of the scenario {baseline.scenario}, and this is {scenario}")
    if not conditions.keys() & baseline.variants.keys():
        raise BadInputError(
            f"--against: the baseline is of {', '.join(sorted(baseline.variants))}, and this is {', '.join(conditions)}; "
            f"{CONTROL} is the scenario without a variant"
        )
    for variant, now in conditions.items():
        known = baseline.variants.get(variant)
        if known and (differences := describe_differences(now, known.conditions)):
            raise BadInputError(
                f"--against: {variant} cannot be compared with the baseline: {differences}; "
                "run it as the baseline was run, or write a new one: stallbench baseline RUN --output FILE"
            )


def find_kind_obstacle(baseline: Baseline, kind: Kind) -> str:
    """Return that the figures of the baseline are of something else than ``kind``; empty if they are not."""
    return "" if baseline.kind == kind else f"the baseline is of {TITLES[baseline.kind]}, and this needs one of {TITLES[kind]}"


def require_same_cpus(baseline: Baseline, host: HostRecord) -> None:
    """Raise `BadInputError` if this machine has another number of CPUs, because then no figure in units can be compared."""
    if host.cpus != baseline.machine.cpus:
        raise BadInputError(
            f"--against: {_describe_other_cpus(host.cpus, baseline.machine.cpus)}, so none of its figures can be compared; "
            "write a baseline on this kind of machine: stallbench baseline NAME --output FILE"
        )


def with_load_of(baseline: Baseline, variant: str, scenario: Scenario) -> Scenario:
    """Return ``scenario`` with the rate of the baseline if its own is a share of the workers' capacity; otherwise as it is.

    A rate that was measured again would never be exactly the same, and figures at different loads are not comparable.
    """
    known = baseline.variants.get(variant)
    rate = known.conditions.get("producers.rate") if known and baseline.scenario == scenario.name else None
    if not scenario.producers.capacity_share or not isinstance(rate, int | float):
        return scenario
    return scenario.with_capacity(rate / scenario.producers.capacity_share)


def find_obstacle(baseline: Baseline, variant: str, record: RunRecord) -> str:
    """Return why no figure of a run can be compared with those of the baseline; empty if they can."""
    return find_obstacle_to(baseline, "run", variant, record, find_conditions(record.scenario))


def find_obstacle_to(baseline: Baseline, kind: Kind, variant: str, record: RunRecord, conditions: Conditions) -> str:
    """Return why what was measured cannot be compared with the baseline; empty if it can.

    ``kind``, ``conditions``: of what was measured. ``record``: of a run that was a part of it.
    """
    if obstacle := find_kind_obstacle(baseline, kind):
        return obstacle
    if record.scenario.name != baseline.scenario:
        return f"the baseline is of the scenario {baseline.scenario}"
    known = baseline.variants.get(variant)
    if known is None:
        return f"the baseline has no runs of {variant}, but of {', '.join(sorted(baseline.variants))}"
    if differences := describe_differences(conditions, known.conditions):
        return differences
    return _find_server_obstacle(known, record)


def _find_server_obstacle(known: BaselineVariant, record: RunRecord) -> str:
    engine, version = find_primary(record)
    if not version:
        return "the version of the server is not known"
    if engine != known.engine or find_major(engine, version) != find_major(known.engine, known.server_version):
        return f"the server is {engine} {version}, in the baseline {known.engine} {known.server_version}"
    return ""


def find_primary(record: RunRecord) -> tuple[str, str]:
    """Return engine and version of a run's primary; empty texts if it had none."""
    return next(((server.engine, server.version) for server in record.servers if server.role == "primary"), ("", ""))


def find_major(engine: str, version: str) -> str:
    """Return the part of a version that names the series of releases: 18 of PostgreSQL 18.1, 10.11 of MariaDB 10.11.6."""
    return ".".join(version.split(".")[: ENGINES[engine].release_numbers])


def find_machine(record: RunRecord) -> BaselineMachine:
    """Return what a baseline says of the machine of a run."""
    host = record.host
    return BaselineMachine(cpus=host.cpus, cpu_models=(host.cpu_model,), systems=(host.os,))


def describe_other_cpus(now: BaselineMachine, then: BaselineMachine) -> str:
    """Return that the machines have different numbers of CPUs, so that only ratios are comparable; empty if they have the same."""
    return _describe_other_cpus(now.cpus, then.cpus) if now.cpus != then.cpus else ""


def _describe_other_cpus(now: int, then: int) -> str:
    return f"this machine has {now} CPU{'s' if now != 1 else ''}, that of the baseline {then}"


def describe_minor_differences(baseline: Baseline, variant: str, record: RunRecord) -> str:
    """Return what differs without making figures incomparable: the model of the CPU, the operating system, the server's minor version."""
    _, version = find_primary(record)
    facts = (
        ("the CPU", record.host.cpu_model, baseline.machine.cpu_models),
        ("the operating system", record.host.os, baseline.machine.systems),
        ("the server's version", version, (baseline.variants[variant].server_version,)),
    )
    return "; ".join(f"{what} is {here}, in the baseline {', '.join(there)}" for what, here, there in facts if here not in there)
