"""Reads ``verdict.json`` of a run's folder, which somebody else may have sent."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from stallbench.base.storage.record_text import read_record_text
from stallbench.errors import NotCarriedOutError
from stallbench.shell_command import format_shell_command
from stallbench.verdicts.check import Result

NAME = "verdict.json"


class RecordedFinding(BaseModel):
    """What a study shows of a finding."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    check: str
    subject: str
    severity: str
    result: Result
    reason: str


class RecordedVerdict(BaseModel):
    """What a study shows of a verdict."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    verdict: Literal["pass", "fail", "unknown"]
    reason: str
    findings: tuple[RecordedFinding, ...]


def read_verdict(folder: Path) -> RecordedVerdict:
    """Return the verdict of the run in ``folder``. Raises `FileNotFoundError` if there is none, `NotCarriedOutError` if it cannot be read."""
    path = folder / NAME
    try:
        return RecordedVerdict.model_validate_json(read_record_text(path))
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False, include_context=False)[0]
        key = ".".join(map(str, issue["loc"]))
        remedy = format_shell_command(["stallbench", "report", folder])
        raise NotCarriedOutError(
            f"{path}: no verdict: {f'{key}: ' if key else ''}{issue['msg']}; make it again by: {remedy}"
        ) from None
