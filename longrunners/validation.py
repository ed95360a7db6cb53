"""Validates the longrunners of a scenario without starting them: kind, role of the server, options, and the settings that they need."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from longrunners import find_longrunners


class Choice(BaseModel):
    """One longrunner of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    engine: str = "postgres"
    role: str | None = None
    """Role of the server that it runs on; not checked if none."""
    options: dict[str, object] = {}
    settings: dict[str, object] | None = None
    """Settings of that server, without those at their default; not checked if none."""


class Choices(RootModel[list[Choice]]):
    """All longrunners of a scenario."""


def find_issues(choice: Choice) -> list[dict[str, Any]]:
    """Return what is wrong with a choice, each as the parts of a sentence.

    ``where`` is the key. An unknown key has ``unknown`` and ``allowed``; an unknown name has ``found`` and ``allowed``; any other
    issue has ``found`` and ``expected``. What pydantic finds wrong with the options has its own ``type``, ``loc``, ``msg`` and ``ctx`` beside them.
    """
    kinds = find_longrunners(choice.engine)
    if choice.kind not in kinds:
        return [{"where": "kind", "found": choice.kind, "allowed": list(kinds), "engine": choice.engine}]
    kind = kinds[choice.kind]
    issues: list[dict[str, Any]] = []
    if choice.role is not None and choice.role not in kind.roles:
        issues.append({"where": "on", "found": choice.role, "expected": f"a {' or '.join(kind.roles)}, where {choice.kind} runs"})
    try:
        options = kind.options_type.model_validate(choice.options)
    except ValidationError as error:
        return [*issues, *_find_option_issues(error, kind.options_type)]
    missing = kind.find_missing_setting(options, choice.settings) if choice.settings is not None else None
    if missing:
        issues.append({"where": "kind", "found": repr(choice.kind), "expected": missing})
    return issues


def describe_issue(issue: dict[str, Any]) -> str:
    """Return an issue as a sentence."""
    where = issue["where"]
    if issue.get("unknown"):
        allowed = ", ".join(issue["allowed"])
        return f"{where}: unknown key; " + (f"allowed are {allowed}" if allowed else "no key is allowed here")
    if "allowed" in issue:
        return f"{where} is {issue['found']!r}; expected one of {', '.join(issue['allowed'])}"
    expected = issue["expected"].removeprefix("Value error, ").removeprefix("expected ").removeprefix("Input should be ")
    return f"{where} is {issue['found']}; expected {expected}"


def _find_option_issues(error: ValidationError, options_type: type[BaseModel]) -> list[dict[str, Any]]:
    names = [field.alias or name for name, field in options_type.model_fields.items()]
    found = [detail["input"] for detail in error.errors(include_url=False)]
    issues: list[dict[str, Any]] = []
    for detail, value in zip(json.loads(error.json(include_url=False, include_input=False)), found, strict=True):
        where = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "extra_forbidden":
            issues.append({**detail, "where": where, "unknown": True, "allowed": names})
        else:
            issues.append({**detail, "where": where, "found": repr(value), "expected": detail["msg"]})
    return issues
