"""What can be wrong with a scenario's content, all of it at once: a value by itself, and values that do not fit together.

Each part is held against the others as far as those are sound: a fault in one phase hides none in an expectation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from stallbench.engines import ENGINES, Engine, EngineTraits
from stallbench.measures import WHOLE_RUN
from stallbench.queues import NoQueueError, find_queue, find_queues
from stallbench.queues.user_queue import is_user_queue
from stallbench.scenario.model import Database, Phase, Producers, QueueChoice, ScenarioContent, Workers
from stallbench.scenario.toml import find_unusable_values
from stallbench.scenario.validation.comparison import find_comparison_issues
from stallbench.scenario.validation.expectations import find_expectation_issues
from stallbench.scenario.validation.faults import find_fault_issues
from stallbench.scenario.validation.issue import ValidationIssue, show_value
from stallbench.scenario.validation.longrunners import find_longrunner_issues
from stallbench.scenario.validation.maintenance import find_maintenance_issues
from stallbench.scenario.validation.model_issues import find_model_issues
from stallbench.scenario.validation.suggestion import did_you_mean

LONGEST_S = 24 * 3600
"""Phases of a day together: what a soak takes. A longer one is a typing error."""

_CONNECTIONS_BESIDES = 20
_ENGINES_OF_KEY: Mapping[str, tuple[Engine, ...]] = {
    "version": ("postgres",),
    "replication_slot": ("postgres",),
    "hot_standby_feedback": ("postgres",),
    "synchronous": ("postgres", "mariadb"),
    "small_disk": ("postgres",),
}
"""What not every engine has, by its key in ``database``."""

ModelT = TypeVar("ModelT", bound=BaseModel)


def find_issues(content: Mapping[str, Any], variants: Collection[str] = ()) -> list[ValidationIssue]:
    """Return everything that is wrong with ``content``, a scenario's file with its variant applied; empty if it can be run.

    ``variants``: the names of all of the file's variants, which a comparison may speak of.
    """
    phases = _items(content, "phases")
    measured = {phase["name"]: phase.get("measured", True) is not False for phase in phases if isinstance(phase.get("name"), str)}
    database = _table(content, "database")
    unusable = list(find_unusable_values(content))
    of_models = [
        *find_model_issues(ScenarioContent, content),
        *_find_queue_issues(_sound(QueueChoice, content.get("queue")), database.get("engine", Database().engine)),
    ]
    places = {fault.path for fault in unusable}
    return [
        *unusable,
        *(fault for fault in of_models if fault.path not in places),
        *_find_phase_issues(phases, _table(content, "producers")),
        *_find_producer_issues(_table(content, "producers")),
        *_find_load_issues(content),
        *_find_database_issues(database),
        *_find_connection_issues(content, database),
        *find_expectation_issues(_items(content, "expect"), measured),
        *find_comparison_issues(_table(content, "comparison"), measured, variants),
        *([] if unusable else _find_longrunner_issues(phases, database)),
        *_find_fault_issues(content, phases, database),
        *_find_maintenance_issues(content, database),
    ]


def _sound(model: type[ModelT], value: object) -> ModelT | None:
    """Return ``value`` as ``model``, or none: what is wrong with it is told of elsewhere."""
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def _find_longrunner_issues(phases: list[dict[str, Any]], database: dict[str, Any]) -> Iterator[ValidationIssue]:
    servers = _sound(Database, {key: database[key] for key in ("engine", "replicas") if key in database})
    if servers:  # else it is not clear where they could run
        of_all = _table(database, "settings")
        settings = {"primary": of_all, "replica": {**of_all, **_table(database, "replica_settings")}}
        yield from find_longrunner_issues(phases, engine=servers.engine, replicas=servers.replicas, settings=settings)


def _find_fault_issues(
    content: Mapping[str, Any], phases: list[dict[str, Any]], database: Mapping[str, Any]
) -> Iterator[ValidationIssue]:
    of_servers = _sound(Database, {key: database[key] for key in ("engine", "replicas") if key in database})
    workers, producers = _sound(Workers, _table(content, "workers")), _sound(Producers, content.get("producers"))
    if of_servers and workers and producers:  # else it is not clear where they could strike
        yield from find_fault_issues(
            phases,
            database,
            engine=of_servers.engine,
            replicas=of_servers.replicas,
            workers=workers.count,
            producers=producers.count if producers.has_load else 0,
            has_scheduler=_has_scheduler(_sound(QueueChoice, content.get("queue"))),
        )


def _has_scheduler(choice: QueueChoice | None) -> bool:
    """Whether the queue has one; no, if it is not clear which queue it is."""
    try:
        queue = find_queue(choice.kind) if choice else None
    except NoQueueError:
        return False
    options = _sound(queue.options_type, choice.options) if queue and choice else None
    return bool(queue and options and queue.has_scheduler(options))


def _find_maintenance_issues(content: Mapping[str, Any], database: Mapping[str, Any]) -> Iterator[ValidationIssue]:
    of_servers = _sound(Database, {key: database[key] for key in ("engine", "replicas") if key in database})
    if of_servers:
        items = _items(content, "maintenance")
        yield from find_maintenance_issues(items, engine=of_servers.engine, replicas=of_servers.replicas)


def _table(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a table, an empty one if there is none."""
    table = content.get(key)
    return table if isinstance(table, dict) else {}


def _items(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the tables of an array, an empty one for each item that is none, so that positions stay."""
    array = content.get(key)
    return [item if isinstance(item, dict) else {} for item in array] if isinstance(array, list) else []


def _find_queue_issues(queue: QueueChoice | None, engine: object) -> Iterator[ValidationIssue]:
    if queue is None:
        return
    queues = find_queues()
    fit = [kind for kind, other in queues.items() if isinstance(engine, str) and engine in other.engines]
    try:
        chosen = find_queue(queue.kind)
    except NoQueueError as error:
        allowed = f"one of {', '.join(fit or queues)}{did_you_mean(queue.kind, fit or queues)}"
        problem = f", which {error}" if is_user_queue(queue.kind) else f"; expected {allowed}"
        yield ValidationIssue(("queue", "kind"), f" is {show_value(queue.kind)}{problem}")
        return
    if fit and engine not in chosen.engines:
        engines = " and ".join(sorted(chosen.engines))
        problem = f' is "{queue.kind}", which runs on {engines} and not on {engine}; expected one of {", ".join(fit)}'
        yield ValidationIssue(("queue", "kind"), problem)
    faults = find_model_issues(chosen.options_type, queue.options, under=("queue",), of=queue.kind, also_allowed=["kind"])
    yield from faults
    if not faults and isinstance(engine, str) and engine in chosen.engines:
        fault = chosen.find_option_issue(chosen.options_type.model_validate(queue.options), engine)
        if fault:
            yield ValidationIssue(("queue", fault[0]), fault[1])


def _find_phase_issues(phases: list[dict[str, Any]], producers: Mapping[str, Any]) -> Iterator[ValidationIssue]:
    times = Counter(phase["name"] for phase in phases if isinstance(phase.get("name"), str))
    for index, phase in enumerate(phases):
        name = phase.get("name")
        if name == WHOLE_RUN:
            yield ValidationIssue(
                ("phases", index, "name"), f' is "{WHOLE_RUN}", which stands for the whole run; expected another name'
            )
        elif isinstance(name, str) and times[name] > 1:
            problem = f" is {show_value(name)}, as another phase's is; expected a name of its own for each phase"
            yield ValidationIssue(("phases", index, "name"), problem)
    last_drained = next((index for index, phase in enumerate(phases) if phase.get("until") == "drained"), None)
    load = next((key for key in ("rate", "capacity_share") if key in producers), "rate")
    if last_drained is not None and producers.get(load):
        problem = (
            f' is "drained", but producers.{load} is {show_value(producers[load])}, and the queue is never empty for long; '
            'expected rate = 0, or "caught_up"'
        )
        yield ValidationIssue(("phases", last_drained, "until"), problem)
    if phases and all(phase.get("measured") is False for phase in phases):
        yield ValidationIssue(("phases",), ": none is measured; leave out `measured = false` in at least one")
    sound = [_sound(Phase, phase) for phase in phases]
    together_s = sum(phase.duration_s for phase in sound if phase)
    if together_s > LONGEST_S:
        yield ValidationIssue(("phases",), f" take {together_s:,.0f} s together; expected at most {LONGEST_S:,} s, a day")


def _find_load_issues(content: Mapping[str, Any]) -> Iterator[ValidationIssue]:
    """Find a load that is not said, or that cannot be measured."""
    producers, workers = _table(content, "producers"), _sound(Workers, _table(content, "workers"))
    if {"rate", "capacity_share"} <= producers.keys():
        yield ValidationIssue(("producers", "capacity_share"), " is given beside a rate; expected one of the two")
    if isinstance(content.get("producers"), dict) and not {"rate", "capacity_share"} & producers.keys():
        yield ValidationIssue(
            ("producers", "rate"), " is missing; write it like rate = 500, or as a share, like capacity_share = 0.65"
        )
    if "capacity_share" in producers and workers and not workers.count:
        yield ValidationIssue(
            ("producers", "capacity_share"), " is of what the workers can do, but workers.count is 0; expected a rate"
        )


def _find_producer_issues(producers: Mapping[str, Any]) -> Iterator[ValidationIssue]:
    """Find what Locust cannot do, and what only Locust can."""
    if producers.get("kind") == "locust":
        if producers.get("max_batch", 1) != 1:
            yield ValidationIssue(
                ("producers", "max_batch"), " is given, but a user of Locust enqueues one job a request; leave it out"
            )
        return
    for key in ("users", "max_failure_ratio"):
        if key in producers:
            yield ValidationIssue(("producers", key), ' is for Locust; it needs producers.kind = "locust"')


def _find_connection_issues(content: Mapping[str, Any], database: Mapping[str, Any]) -> Iterator[ValidationIssue]:
    """Find more processes than the server takes connections; the bench's own, and a longrunner's, need some besides."""
    workers, producers = _sound(Workers, _table(content, "workers")), _sound(Producers, content.get("producers"))
    traits = _traits_of(database)
    if workers and producers and traits and traits.connection_limit:
        setting, default = traits.connection_limit
        limit = _table(database, "settings").get(setting, default)
        each = producers.users if producers.kind == "locust" else 1
        needed = workers.count + producers.count * each + _CONNECTIONS_BESIDES
        if isinstance(limit, int) and needed > limit:
            yield ValidationIssue(
                ("workers", "count"),
                f" is {workers.count}: with the other processes that is some {needed} connections, and the server takes {limit}; "
                f"expected fewer, or database.settings.{setting} of at least {needed}",
            )


def _traits_of(database: Mapping[str, Any]) -> EngineTraits | None:
    """Return what is known of the scenario's engine; none if there is no such engine, which is told elsewhere."""
    chosen = _sound(Database, {"engine": database.get("engine", Database().engine)})
    return ENGINES[chosen.engine] if chosen else None


def _find_database_issues(database: Mapping[str, Any]) -> Iterator[ValidationIssue]:
    traits = _traits_of(database)
    if traits is None:
        return
    if database.get("replicas") and not traits.has_replicas:
        yield ValidationIssue(
            ("database", "replicas"), f" is {database['replicas']}, but {traits.title} has no replicas; expected 0"
        )
    engine = database.get("engine", Database().engine)
    for key, engines in _ENGINES_OF_KEY.items():
        if database.get(key) and engine not in engines:
            told = " and ".join(ENGINES[one].title for one in engines)
            yield ValidationIssue(("database", key), f" is for {told}, and the engine is {traits.title}; leave it out")
    if database.get("replicas", 0) == 0:
        for key in ("replication_slot", "hot_standby_feedback", "synchronous", "replica_settings"):
            if database.get(key):
                yield ValidationIssue(("database", key), " is given, but database.replicas is 0; it needs at least 1")
    if database.get("small_disk") and database.get("replicas"):
        yield ValidationIssue(
            ("database", "small_disk"), f" is given, but database.replicas is {database['replicas']}; expected 0 with it"
        )
    for key in ("settings", "replica_settings"):
        names = _table(database, key)
        if names and not traits.has_settings:
            yield ValidationIssue(
                ("database", key), f" is given, but {traits.title} has no settings that a scenario could change"
            )
        for name in names:
            if name in traits.own_settings:
                instead = traits.own_settings[name]
                what_to_do = f"use {instead}" if instead else "leave it out"
                yield ValidationIssue(("database", key, name), f" is the bench's own to set; {what_to_do}")
