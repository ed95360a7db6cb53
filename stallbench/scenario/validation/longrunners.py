"""Validates the longrunners of a scenario.

Each kind checks its own options in a separate process, because the library does not import what it starts. The process needs a quarter of a second of
a processor. The questions about several contents are therefore collected first, and no question is asked twice.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from stallbench.base.validation_issue import KeyPath, ValidationIssue, show_value
from stallbench.errors import NotCarriedOutError
from stallbench.injection.choices import LongrunnerChoice
from stallbench.processes.role_command import role_command
from stallbench.scenario.longrunner_issue import LongrunnerIssue
from stallbench.scenario.validation.injections import find_choices, list_servers, make_kind_issue, make_target_issue
from stallbench.scenario.validation.keys_and_values import describe_detail
from stallbench.scenario.validation.raw_scenario import RawScenario, as_table

_ANSWER_S = 30.0
_ANSWERS = TypeAdapter(list[list[LongrunnerIssue]])


_answered: dict[str, list[LongrunnerIssue]] = {}
"""The answer to each question that was asked."""


def find_longrunner_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find the issues of all longrunners. Empty if the servers are invalid: then it is unknown on which servers longrunners can run."""
    if content.database is None:
        return
    servers = list_servers(content.database.replicas)
    asked: list[tuple[KeyPath, LongrunnerChoice]] = []
    for path, choice in _find_longrunners(content):
        if choice.on in servers:
            asked.append((path, choice))
        else:
            why = "" if content.database.replicas else " (database.replicas is 0)"
            yield make_target_issue(path, choice.on, list(servers), why=why)
    for (path, choice), found in zip(asked, _answer(_make_questions(content)), strict=True):
        for issue in found:
            yield _make_issue(path, choice, issue, servers)


def ask_about_longrunners(contents: Iterable[RawScenario]) -> None:
    """Ask about the longrunners of all ``contents`` with one command, so that `find_longrunner_issues` need not ask about each."""
    _answer([question for content in contents for question in _make_questions(content)])


def _find_longrunners(content: RawScenario) -> Iterator[tuple[KeyPath, LongrunnerChoice]]:
    for index, phase in enumerate(content.items("phases")):
        yield from find_choices(phase, "longrunners", LongrunnerChoice, under=("phases", index))


def _make_questions(content: RawScenario) -> list[str]:
    """Return a question, as JSON, for each longrunner whose server exists."""
    if content.database is None:
        return []
    servers = list_servers(content.database.replicas)
    settings = _settings_by_role(content)
    return [
        json.dumps(
            {
                "kind": choice.kind,
                "engine": content.database.engine,
                "role": servers[choice.on],
                "options": choice.options,
                "settings": settings[servers[choice.on]],
            },
            sort_keys=True,
        )
        for _, choice in _find_longrunners(content)
        if choice.on in servers
    ]


def _answer(questions: Sequence[str]) -> list[list[LongrunnerIssue]]:
    if new := [question for question in dict.fromkeys(questions) if question not in _answered]:
        _answered.update(zip(new, ask_longrunners(f"[{', '.join(new)}]"), strict=True))
    return [_answered[question] for question in questions]


def ask_longrunners(questions: str) -> list[list[LongrunnerIssue]]:
    """Return, for each of ``questions`` (a JSON list), the issues that ``python -m longrunners --check`` finds.

    Raises `NotCarriedOutError` if that command fails.
    """
    try:
        ended = subprocess.run(
            role_command("longrunners", "--check"),
            input=questions,
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise NotCarriedOutError(f"python -m longrunners --check gave no answer within {_ANSWER_S:.0f} s") from error
    except subprocess.CalledProcessError as error:
        last_line = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        raise NotCarriedOutError(f"python -m longrunners --check failed: {last_line}") from error
    return _ANSWERS.validate_json(ended.stdout)


def _settings_by_role(content: RawScenario) -> dict[str, dict[str, Any]]:
    """Return the settings of the servers, by their role, ``primary`` or ``replica``."""
    database = content.table("database")
    of_all = as_table(database.get("settings"))
    return {"primary": of_all, "replica": {**of_all, **as_table(database.get("replica_settings"))}}


def _make_issue(path: KeyPath, choice: LongrunnerChoice, issue: LongrunnerIssue, servers: Mapping[str, str]) -> ValidationIssue:
    """Turn an issue that the longrunners report into one of the choice at ``path``."""
    if issue.detail is not None:
        allowed = [*choice.list_keys(), *(issue.allowed or ())]
        described = describe_detail({**issue.detail, "of": choice.kind, "allowed": allowed}, choice.options)
        return ValidationIssue((*path, *described.path), described.problem)
    if issue.allowed is not None:
        why = "" if issue.allowed else f", but no longrunner runs on {issue.engine}"
        return make_kind_issue(path, choice.kind, list(issue.allowed), why=why)
    here = (*path, issue.where)
    if issue.where == "on":
        there_are = f"; there are {', '.join(servers)}" if len(servers) > 1 else ", but database.replicas is 0"
        return ValidationIssue(here, f" is {show_value(choice.on)}; expected {issue.expected}{there_are}")
    return ValidationIssue(here, f" is {show_value(choice.kind)}; expected {issue.expected}")
