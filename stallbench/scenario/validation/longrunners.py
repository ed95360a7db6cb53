"""What can be wrong with a scenario's longrunners.

Their kinds say it themselves, in a process of their own: the library does not import what it starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ValidationError

from stallbench import PROJECT
from stallbench.errors import NotCarriedOutError
from stallbench.scenario.model import LongrunnerChoice
from stallbench.scenario.validation.issue import KeyPath, ValidationIssue, show_value
from stallbench.scenario.validation.model_issues import describe_detail
from stallbench.scenario.validation.suggestion import did_you_mean

_ANSWER_S = 30.0
_OF_EVERY_KIND = ("kind", "on", "may_be_ended")


def find_longrunner_issues(
    phases: Sequence[Mapping[str, Any]], *, engine: str, replicas: int, settings: Mapping[str, Mapping[str, Any]]
) -> Iterator[ValidationIssue]:
    """Go through the longrunners of ``phases`` as the file gives them; what is wrong with one by itself is told elsewhere.

    ``engine``: of the servers. ``replicas``: how many there are. ``settings``: of the servers, by their role, ``primary`` or ``replica``.
    """
    servers = {"primary": "primary"} | {f"replica-{number}": "replica" for number in range(1, replicas + 1)}
    asked: list[tuple[KeyPath, LongrunnerChoice]] = []
    for path, choice in _sound_choices(phases):
        if choice.on in servers:
            asked.append((path, choice))
        else:
            allowed = f"one of {', '.join(servers)}{did_you_mean(choice.on, servers)}"
            without = " (database.replicas is 0)" if replicas == 0 else ""
            yield ValidationIssue((*path, "on"), f" is {show_value(choice.on)}; expected {allowed}{without}")
    questions = []
    for _, choice in asked:
        role = servers[choice.on]
        questions.append(
            {"kind": choice.kind, "engine": engine, "role": role, "options": choice.options, "settings": settings[role]}
        )
    answers = ask_longrunners(json.dumps(questions, sort_keys=True)) if questions else []
    for (path, choice), faults in zip(asked, answers, strict=True):
        for told in faults:
            yield _describe(path, choice, told, servers)


@cache
def ask_longrunners(questions: str) -> list[list[dict[str, Any]]]:
    """Return, for each of ``questions`` (a JSON list), what ``python -m longrunners --check`` finds wrong.

    Raises `NotCarriedOutError` if the longrunners themselves are broken.
    """
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "longrunners", "--check"],
            input=questions,
            capture_output=True,
            text=True,
            cwd=PROJECT,
            timeout=_ANSWER_S,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise NotCarriedOutError(f"python -m longrunners --check gave no answer within {_ANSWER_S:.0f} s") from error
    except subprocess.CalledProcessError as error:
        last_line = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        raise NotCarriedOutError(f"python -m longrunners --check failed: {last_line}") from error
    answers: list[list[dict[str, Any]]] = json.loads(ended.stdout)
    return answers


def _sound_choices(phases: Sequence[Mapping[str, Any]]) -> Iterator[tuple[KeyPath, LongrunnerChoice]]:
    for index, phase in enumerate(phases):
        longrunners = phase.get("longrunners")
        for number, choice in enumerate(longrunners if isinstance(longrunners, list) else []):
            try:
                yield ("phases", index, "longrunners", number), LongrunnerChoice.model_validate(choice)
            except ValidationError:
                continue


def _describe(path: KeyPath, choice: LongrunnerChoice, told: Mapping[str, Any], servers: Mapping[str, str]) -> ValidationIssue:
    """Make a line of a fault as ``longrunners.validation.find_issues`` gives it."""
    if "type" in told:
        fault = describe_detail(
            {**told, "of": choice.kind, "allowed": [*_OF_EVERY_KIND, *told.get("allowed", [])]}, choice.options
        )
        return ValidationIssue((*path, *fault.path), fault.problem)
    here = (*path, told["where"])
    if "allowed" in told:
        if not told["allowed"]:
            return ValidationIssue(
                here, f" is {show_value(choice.kind)}, but no longrunner runs on {told['engine']}; leave it out"
            )
        allowed = f"one of {', '.join(told['allowed'])}{did_you_mean(choice.kind, told['allowed'])}"
        return ValidationIssue(here, f" is {show_value(choice.kind)}; expected {allowed}")
    if told["where"] == "on":
        there_are = f"; there are {', '.join(servers)}" if len(servers) > 1 else ", and database.replicas is 0"
        return ValidationIssue(here, f" is {show_value(choice.on)}; expected {told['expected']}{there_are}")
    return ValidationIssue(here, f" is {show_value(choice.kind)}; expected {told['expected']}")
