"""What the fixture returns: the verdict of a run, or the results for a queue's promises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The verdict of a run. ``assert outcome.passed, outcome.reason``."""

    verdict: str
    """``pass``, ``fail`` or ``unknown``."""
    reason: str
    """The worst finding, in one sentence."""
    findings: tuple[Mapping[str, Any], ...]
    """What each check, requirement and expectation has found: ``check``, ``subject``, ``result``, ``reason`` and more."""
    outcome: Mapping[str, Any] | None = None
    """What happened to the queue: ``effect``, ``recovery``, ``safety``, ``phases``, ``exited``, ``gone``; none if it is not known."""
    folder: Path
    """The run's folder, with its records, tables and report."""

    @property
    def passed(self) -> bool:
        """Whether every expectation, requirement and check passes. What could not be decided does not pass."""
        return self.verdict == "pass"

    @property
    def report(self) -> Path:
        """The page with the report."""
        return self.folder / "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformance:
    """The results for a queue's promises. ``assert conformance.passed, conformance.reason``."""

    promises: tuple[Mapping[str, str], ...]
    """For each promise: ``name``, ``result`` (``pass``, ``fail``, ``unknown``, ``info``) and ``reason``."""
    folder: Path

    @property
    def passed(self) -> bool:
        """Whether every promise holds, at every point."""
        return all(each["result"] in ("pass", "info") for each in self.promises)

    @property
    def reason(self) -> str:
        """The promises that do not hold, a line each."""
        return "\n".join(
            f"{each['name']}: {each['result']}: {each['reason']}"
            for each in self.promises
            if each["result"] in ("fail", "unknown")
        )


def read_outcome(folder: Path) -> RunOutcome:
    """Return the verdict of the run in ``folder``."""
    content = json.loads((folder / "verdict.json").read_text())
    return RunOutcome(
        verdict=content["verdict"],
        reason=content["reason"],
        findings=tuple(content["findings"]),
        outcome=content.get("outcome"),
        folder=folder,
    )


def read_conformance(folder: Path) -> Conformance:
    """Return what ``study.json`` in ``folder`` says."""
    content = json.loads((folder / "study.json").read_text())
    return Conformance(promises=tuple(content["promises"]), folder=folder)
