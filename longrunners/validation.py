"""Validates the longrunners of a scenario without starting them: kind, role of the server, options, and the settings that they need."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from longrunners import find_longrunner, find_longrunners
from stallbench.engines import DEFAULT_ENGINE
from stallbench.scenario.longrunner_issue import LongrunnerIssue


class Choice(BaseModel):
    """One longrunner of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    engine: str = DEFAULT_ENGINE
    role: str | None = None
    """Role of the server that it runs on; not checked if none."""
    options: dict[str, object] = {}
    settings: dict[str, object] | None = None
    """Settings of that server, without those at their default; not checked if none."""


class Choices(RootModel[list[Choice]]):
    """All longrunners of a scenario."""


def find_issues(choice: Choice) -> list[LongrunnerIssue]:
    """Return what is wrong with a choice."""
    kind = find_longrunner(choice.kind, choice.engine)
    if kind is None:
        allowed = tuple(find_longrunners(choice.engine))
        return [LongrunnerIssue(where="kind", found=choice.kind, allowed=allowed, engine=choice.engine)]
    issues: list[LongrunnerIssue] = []
    if choice.role is not None and choice.role not in kind.roles:
        where_it_runs = f"a {' or '.join(kind.roles)}, where {choice.kind} runs"
        issues.append(LongrunnerIssue(where="on", found=choice.role, expected=where_it_runs))
    try:
        options = kind.options_type.model_validate(choice.options)
    except ValidationError as error:
        return [*issues, *_find_option_issues(error, kind.options_type)]
    missing = kind.find_missing_setting(options, choice.settings) if choice.settings is not None else None
    if missing:
        issues.append(LongrunnerIssue(where="kind", found=repr(choice.kind), expected=missing))
    return issues


def _find_option_issues(error: ValidationError, options_type: type[BaseModel]) -> list[LongrunnerIssue]:
    names = tuple(field.alias or name for name, field in options_type.model_fields.items())
    found = [detail["input"] for detail in error.errors(include_url=False)]
    issues: list[LongrunnerIssue] = []
    for detail, value in zip(json.loads(error.json(include_url=False, include_input=False)), found, strict=True):
        where = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "extra_forbidden":
            issues.append(LongrunnerIssue(where=where, allowed=names, detail=detail))
        else:
            issues.append(LongrunnerIssue(where=where, found=repr(value), expected=detail["msg"], detail=detail))
    return issues
