"""The JSON Schema of scenario files, made from the models: for editors, which complete and check keys by it.

It says what a key may hold by itself. What depends on several keys, on the machine or on a longrunner's kind, only `stallbench validate` finds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.injection.faults import find_faults
from stallbench.injection.maintenance import find_maintenance_kinds
from stallbench.queues import find_queues
from stallbench.scenario.listing import SCENARIOS
from stallbench.scenario.model import ScenarioContent
from stallbench.scenario.requirement import PARTS

SCHEMA_FILE = SCENARIOS / "schema.json"
"""The schema as it is committed, to which the scenario files refer by ``#:schema``."""
_PART_OF_ALL = "$defs"


def make_schema() -> dict[str, Any]:
    """Return the schema of a scenario file, with the options of every kind that is installed."""
    schema = ScenarioContent.model_json_schema(by_alias=True)
    definitions: dict[str, Any] = schema[_PART_OF_ALL]
    _add_kinds(definitions, "QueueChoice", {kind: each.options_type for kind, each in find_queues().items()}, others=True)
    faults = {kind: each.options_type for kind, each in find_faults().items()}
    _add_kinds(definitions, "FaultChoice", faults)
    combined = {kind: each.options_type for kind, each in find_faults().items() if each.combination is not None}
    _add_kinds(definitions, "ChaosKind", combined)
    definitions["ChaosKind"] = {"anyOf": [{"enum": list(combined)}, definitions["ChaosKind"]]}
    _add_kinds(definitions, "MaintenanceChoice", {kind: each.options_type for kind, each in find_maintenance_kinds().items()})
    properties: dict[str, Any] = schema["properties"]
    names = {"enum": list(PARTS)}
    definitions["Requirement"] = {"anyOf": [names, definitions["Requirement"]]}
    about = {"description": properties["require"].pop("description")}
    properties["require"] = {**about, "anyOf": [names, properties["require"]]}
    variant = {"type": "object", "propertyNames": {"enum": list(properties)}, "properties": {"summary": {"type": "string"}}}
    properties["variants"] = {
        "type": "object",
        "description": "named changes of this scenario: tables with the keys that differ",
        "propertyNames": properties["subject"]["anyOf"][0] | {"pattern": "^[a-z][a-z0-9_-]{0,62}$"},
        "additionalProperties": variant,
    }
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema, "title": "A scenario of stallbench"}


def write_schema(schema: Mapping[str, Any]) -> str:
    """Return the schema as text, the same for the same schema."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _add_kinds(definitions: dict[str, Any], name: str, kinds: Mapping[str, type[BaseModel]], *, others: bool = False) -> None:
    """Restrict the choice ``name`` to ``kinds``, each with its own options. ``others``: libraries and users' classes are kinds, too."""
    choice: dict[str, Any] = definitions[name]
    own: dict[str, Any] = choice["properties"]
    known = {"enum": list(kinds)}
    elsewhere = {"type": "string", "pattern": f"^{LIBRARY_PREFIX}|\\.py:"}
    own["kind"] = {**own["kind"], "anyOf": [known, elsewhere]} if others else {**own["kind"], **known}
    choice["allOf"] = [
        {"if": {"required": ["kind"], "properties": {"kind": {"const": kind}}}, "then": _options_of(options, own, definitions)}
        for kind, options in kinds.items()
    ]


def _options_of(options: type[BaseModel], own: Mapping[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return what applies to a table of a kind: its options, and no keys but these and those that every kind has."""
    schema = options.model_json_schema(by_alias=True)
    for name, definition in schema.get(_PART_OF_ALL, {}).items():
        assert definitions.setdefault(name, definition) == definition, f"two models are called {name}"
    properties: dict[str, Any] = schema.get("properties", {})
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"properties": properties, "propertyNames": {"enum": [*own, *properties]}, **required}
