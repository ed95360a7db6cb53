"""Issues of single keys and values: an unknown key, a wrong type, a value out of range. Turns pydantic's errors into validation issues."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from stallbench.base.duration import format_duration, parse_duration_s
from stallbench.base.section import ISSUE
from stallbench.base.validation_issue import KeyPath, ValidationIssue, find_value, show_key_path, show_value
from stallbench.suggestion import did_you_mean

_MANY = 4
_KEY_OF_A_TABLE = "[key]"
"""Last part of pydantic's path if the key of a table is invalid, and not its value."""

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "tuple_type": "an array, like [{{ .. }}, {{ .. }}]",
    "dict_type": "a table",
    "model_type": "a table",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}
_PATTERNS = {
    r"^[a-z][a-z0-9_-]{0,62}$": "a name of up to 63 small letters, digits, - and _, the first a letter",
    r"^[a-z_][a-z0-9_.]{0,127}$": "a setting's name, like autovacuum_naptime",
    r"\S": "text that is not empty",
}
_QUOTED = re.compile(r"'([^']*)'")


def find_key_and_value_issues(
    model: type[BaseModel], content: Mapping[str, Any], *, under: KeyPath = (), of: str = "", also_allowed: Sequence[str] = ()
) -> list[ValidationIssue]:
    """Return an issue for each value of ``content`` that ``model`` does not accept.

    ``under``: the path of ``content`` in the scenario. ``of``: the kind whose options ``content`` has. ``also_allowed``: the keys that are allowed in
    addition to these options.
    """
    details = _find_details(model, content)
    if unknown := [detail["loc"] for detail in details if detail["type"] == "extra_forbidden"]:
        # With an unknown key, validators of the whole table do not run.
        without = _find_details(model, _without(content, unknown))
        details += [detail for detail in without if detail["type"] == ISSUE and detail not in details]
    issues = [
        describe_detail(
            {
                **detail,
                "of": of,
                "allowed": [*also_allowed, *list_keys(model, _above(detail["loc"]))],
                "elsewhere": find_key_elsewhere(model, str(detail["loc"][-1])) if detail["loc"] else None,
            },
            content,
            example=_find_example(model, detail["loc"]) if detail["type"] == "missing" else "",
        )
        for detail in details
        if not _is_consequence(detail, content)
    ]
    return [ValidationIssue((*under, *issue.path), issue.problem) for issue in issues]


def describe_detail(detail: Mapping[str, Any], content: Mapping[str, Any], example: str = "") -> ValidationIssue:
    """Turn one of pydantic's error details, with the ``allowed`` keys at its path, into an issue.

    ``content``: what was validated, to show the value as it was written. ``example``: how a missing value may be written. The detail of an
    unknown key may say whose options were expected (``of``), and the path at which the key is known (``elsewhere``).
    """
    kind, path, context = detail["type"], tuple(detail["loc"]), detail.get("ctx", {})
    if kind == ISSUE:
        return ValidationIssue((*path, context["key"]) if "key" in context else path, context["problem"])
    if kind == "missing":
        return ValidationIssue(path, f" is missing; write it like {example}" if example else " is missing")
    if kind == "extra_forbidden":
        return ValidationIssue(path, _describe_unknown_key(str(path[-1]), detail))
    if path and path[-1] == _KEY_OF_A_TABLE:
        return ValidationIssue(path[:-1], f": expected {_PATTERNS.get(context.get('pattern', ''), 'another key')}")
    found = find_value(content, path)
    if kind == "too_short":
        return ValidationIssue(path, f" is empty; expected at least {context['min_length']}")
    return ValidationIssue(path, f" is {show_value(found)}; expected {_describe_expected(detail, found)}")


def list_keys(model: type[BaseModel], path: Sequence[str | int] = ()) -> list[str]:
    """Return the keys that a file may have at ``path`` of ``model``, in order."""
    here = _model_at(model, path)
    return [_key(name, field) for name, field in here.model_fields.items()] if here else []


def find_key_elsewhere(model: type[BaseModel], key: str) -> KeyPath | None:
    """Return the path of the first key of this name in ``model``; none if there is none."""
    for name, field in model.model_fields.items():
        if _key(name, field) == key:
            return (key,)
        inner = _model_in(field.annotation)
        if inner and (path := find_key_elsewhere(inner, key)):
            return (_key(name, field), *path)
    return None


def _find_details(model: type[BaseModel], content: object) -> list[ErrorDetails]:
    try:
        model.model_validate(content)
    except ValidationError as error:
        return error.errors(include_url=False, include_input=False)
    return []


def _without(content: Mapping[str, Any], paths: Iterable[Sequence[str | int]]) -> dict[str, Any]:
    """Return a copy of ``content`` without the keys at ``paths``."""
    left = copy.deepcopy(dict(content))
    for path in paths:
        table = find_value(left, _above(path))
        if isinstance(table, dict):
            table.pop(path[-1], None)
    return left


def _describe_unknown_key(key: str, detail: Mapping[str, Any]) -> str:
    allowed, elsewhere = detail["allowed"], detail.get("elsewhere")
    unknown = f": unknown key of {detail['of']}" if detail.get("of") else ": unknown key"
    near = did_you_mean(key, allowed)
    if not near and elsewhere:
        known = show_key_path(elsewhere)
        near = f'; did you mean "{known}"?' if len(elsewhere) > 1 else f'; "{known}" belongs above the first [table]'
    return f"{unknown}; allowed are {', '.join(allowed)}{near}"


def _describe_expected(detail: Mapping[str, Any], found: object) -> str:
    kind, context = detail["type"], dict(detail.get("ctx", {}))
    if kind == "value_error":
        return str(detail["msg"]).removeprefix("Value error, ").removeprefix("expected ")
    if kind in ("literal_error", "enum"):
        if not (allowed := _QUOTED.findall(context["expected"])):  # numbers
            return str(context["expected"])
        near = did_you_mean(found, allowed) if isinstance(found, str) else ""
        quoted = " or ".join(f'"{one}"' for one in allowed)
        return (quoted if len(allowed) < _MANY else f"one of {', '.join(allowed)}") + near
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"text that matches {context['pattern']}")
    if kind in _EXPECTED:
        return _EXPECTED[kind].format_map({name: _show_bound(bound, found) for name, bound in context.items()})
    return str(detail["msg"]).removeprefix("Input should be ")


def _show_bound(bound: object, found: object) -> str:
    """Show a bound in the form of the value: as a duration, or as a number."""
    if not isinstance(bound, int | float):
        return str(bound)
    try:
        parse_duration_s(found)
    except ValueError:
        return f"{bound:,}" if isinstance(bound, int) else f"{bound:,g}" if abs(bound) < 1e6 else f"{bound:,.0f}"
    return format_duration(bound)


def _is_consequence(detail: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    """Whether pydantic counts an array as too short only because items of it have issues."""
    return detail["type"] == "too_short" and bool(find_value(content, detail["loc"]))


def _find_example(model: type[BaseModel], path: Sequence[str | int]) -> str:
    """Return how the field at ``path`` may be written, from the model's examples."""
    here = _model_at(model, _above(path))
    field = _field(here, path[-1]) if here else None
    if field is None:
        return ""
    if field.examples:
        return f"{path[-1]} = {show_value(field.examples[0])}"
    inner = _model_in(field.annotation)
    if inner is None:
        return ""
    required = next(name for name, within in inner.model_fields.items() if within.is_required() or within.examples)
    header = f"[[{show_key_path(path)}]]" if "tuple" in str(field.annotation) else f"[{show_key_path(path)}]"
    return f"{header} {_find_example(inner, [required])}"


def _above(path: Sequence[str | int]) -> Sequence[str | int]:
    return path[:-1]


def _model_at(model: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, str) and here is not None:
            field = _field(here, part)
            here = _model_in(field.annotation) if field else None
    return here


def _field(model: type[BaseModel], key: str | int) -> FieldInfo | None:
    return next((field for name, field in model.model_fields.items() if key in (name, field.alias)), None)


def _key(name: str, field: FieldInfo) -> str:
    return field.alias or name


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := _model_in(part))), None)
