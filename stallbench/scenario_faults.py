"""What can be wrong with a scenario, each said in one line: the key's path, what was found, what is allowed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stallbench.metrics import metric_names
from stallbench.queues import find_queues
from stallbench.run_folder import PROJECT
from stallbench.scenario import Expectation, Scenario
from stallbench.spelling import did_you_mean

WHOLE_RUN = "run"
"""Name that the tables give to the whole run; no phase may have it."""
_LONGEST_S = 24 * 3600
_SHOWN_CHARACTERS = 60


def tell_validation_error(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return a line for each fault that pydantic found in a document for ``model``."""
    return [_tell(fault, model) for fault in error.errors(include_url=False)]


def find_faults(scenario: Scenario) -> list[str]:
    """Return a line for each thing that is wrong although every value by itself is not."""
    return [
        *_find_queue_faults(scenario),
        *_find_phase_faults(scenario),
        *_find_expectation_faults(scenario),
        *_find_database_faults(scenario),
        *_find_longrunner_faults(scenario),
    ]


def _find_queue_faults(scenario: Scenario) -> Iterator[str]:
    queues = find_queues()
    kind = scenario.queue.kind
    if kind not in queues:
        yield f"queue.kind is {kind!r}; expected one of {', '.join(queues)}{did_you_mean(kind, queues)}"
        return
    queue = queues[kind]
    if scenario.database.engine not in queue.engines:
        engines = " and ".join(sorted(queue.engines))
        yield f"queue.kind is {kind!r}, which runs on {engines}, not on {scenario.database.engine}"
    try:
        queue.options_type.model_validate(scenario.queue.options)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            yield f"queue.{_tell(fault, queue.options_type)}"


def _find_phase_faults(scenario: Scenario) -> Iterator[str]:
    names = Counter(phase.name for phase in scenario.phases)
    for index, phase in enumerate(scenario.phases):
        if names[phase.name] > 1:
            yield f"phases[{index}].name is {phase.name!r}, as another phase's is; every phase needs a name of its own"
        if phase.name == WHOLE_RUN:
            yield f"phases[{index}].name is {WHOLE_RUN!r}, which stands for the whole run; choose another name"
    if not any(phase.measured for phase in scenario.phases):
        yield "phases: none is measured; leave out `measured = false` in at least one"
    if scenario.duration_s > _LONGEST_S:
        yield f"phases: they take {scenario.duration_s / 3600:.1f} h together; at most 24 h are allowed"


def _find_expectation_faults(scenario: Scenario) -> Iterator[str]:
    metrics = metric_names()
    for index, expectation in enumerate(scenario.expect):
        where = f"expect[{index}]"
        if expectation.metric not in metrics:
            known = did_you_mean(expectation.metric, metrics)
            yield f"{where}.metric is {expectation.metric!r}; expected a metric of `stallbench show --metrics`{known}"
        for key, name in (("phase", expectation.phase), ("relative_to", expectation.relative_to)):
            if name is not None:
                yield from _find_named_phase_faults(scenario, f"{where}.{key}", name)
        if expectation.relative_to is not None and expectation.relative_to == expectation.phase:
            yield f"{where}.relative_to is {expectation.relative_to!r}, the phase itself; expected another phase"
        yield from _find_bound_faults(where, expectation)


def _find_named_phase_faults(scenario: Scenario, where: str, name: str) -> Iterator[str]:
    phases = {phase.name: phase for phase in scenario.phases}
    measured = [phase.name for phase in scenario.phases if phase.measured]
    if name not in phases:
        yield f"{where} is {name!r}; expected one of {', '.join(measured)}{did_you_mean(name, measured)}"
    elif not phases[name].measured:
        yield f"{where} is {name!r}, which is not measured; expected one of {', '.join(measured)}"


def _find_bound_faults(where: str, expectation: Expectation) -> Iterator[str]:
    at_least, at_most = expectation.at_least, expectation.at_most
    if at_least is None and at_most is None:
        yield f"{where} has no bound; expected at_least, at_most or both"
    for key, bound in (("at_least", at_least), ("at_most", at_most)):
        if bound is not None and not math.isfinite(bound):
            yield f"{where}.{key} is {bound}; expected a finite number"
    if at_least is not None and at_most is not None and at_least > at_most:
        yield f"{where}.at_least is {at_least:g}, more than at_most, {at_most:g}; nothing can hold both"


def _find_database_faults(scenario: Scenario) -> Iterator[str]:
    database = scenario.database
    if database.replicas == 0:
        for key in ("replication_slot", "hot_standby_feedback", "replica_settings"):
            if getattr(database, key):
                yield f"database.{key} is given, but database.replicas is 0; it needs a replica"


def _find_longrunner_faults(scenario: Scenario) -> Iterator[str]:
    servers = {"primary": "primary"} | {f"replica-{n}": "replica" for n in range(1, scenario.database.replicas + 1)}
    chosen = [
        (f"phases[{index}].longrunners[{number}]", choice)
        for index, phase in enumerate(scenario.phases)
        for number, choice in enumerate(phase.longrunners)
    ]
    for where, choice in chosen:
        if choice.on not in servers:
            yield f"{where}.on is {choice.on!r}; expected one of {', '.join(servers)}{did_you_mean(choice.on, servers)}"
    asked = [(where, choice) for where, choice in chosen if choice.on in servers]
    if not asked:
        return
    documents = [{"kind": c.kind, "role": servers[c.on], "options": c.options} for _, c in asked]
    for (where, choice), faults in zip(asked, _ask_longrunners(json.dumps(documents)), strict=True):
        for fault in faults:
            yield _tell_longrunner_fault(where, choice.on, fault)


@cache
def _ask_longrunners(choices: str) -> list[list[dict[str, Any]]]:
    """Let the longrunners themselves check ``choices``, a JSON list: the library does not import what it starts."""
    ended = subprocess.run(
        [sys.executable, "-m", "longrunners", "--check"],
        input=choices,
        capture_output=True,
        text=True,
        cwd=PROJECT,
        check=True,
    )
    faults: list[list[dict[str, Any]]] = json.loads(ended.stdout)
    return faults


def _tell_longrunner_fault(where: str, on: str, fault: Mapping[str, Any]) -> str:
    key = f"{where}.{fault['where']}"
    if "allowed" in fault:
        allowed = fault["allowed"]
        near = did_you_mean(fault.get("found", fault["where"]), allowed)
        if fault.get("unknown"):
            return f"{key}: unknown key; {_list_keys(allowed)}{near}"
        return f"{key} is {fault['found']!r}; expected one of {', '.join(allowed)}{near}"
    found = repr(on) if fault["where"] == "on" else fault["found"]
    return f"{key} is {found}; expected {_expected(fault['expected'])}"


def _tell(fault: ErrorDetails, model: type[BaseModel]) -> str:
    where = _path(fault["loc"])
    if fault["type"] == "extra_forbidden":
        keys = _keys_at(model, fault["loc"][:-1])
        return f"{where}: unknown key; {_list_keys(keys)}{did_you_mean(str(fault['loc'][-1]), keys)}"
    if fault["type"] == "missing":
        return f"{where} is missing"
    return f"{where} is {_show(fault['input'])}; expected {_expected(fault['msg'])}"


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "the scenario"


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that a scenario file may have at ``location``."""
    here: Any = model
    for part in location:
        if isinstance(part, int):
            continue
        field = next((f for name, f in here.model_fields.items() if part in (name, f.alias)), None)
        here = _model_in(field.annotation) if field else None
        if here is None:
            return []
    ours = {"name", "file", "variant", "changes"} if here is Scenario else set()
    return [field.alias or name for name, field in here.model_fields.items() if name not in ours]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := _model_in(part))), None)


def _list_keys(keys: list[str]) -> str:
    return f"allowed are {', '.join(keys)}" if keys else "no key is allowed here"


def _show(value: Any) -> str:
    shown = json.dumps(value, default=str) if isinstance(value, (str, bool)) else repr(value)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}..."


def _expected(message: str) -> str:
    """Turn pydantic's sentence into the end of ours."""
    text = message.removeprefix("Value error, ").removeprefix("expected ")
    text = text.removeprefix("Input should be ")
    return text.replace("String should match pattern '^[a-z][a-z0-9_-]{0,62}$'", "a name of small letters, digits, - and _")
