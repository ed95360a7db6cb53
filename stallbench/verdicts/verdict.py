"""Turns findings into the verdict. Its reason is that of the most severe finding (`Severity` in `check.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stallbench.run.record import RunRecord
from stallbench.scenario.requirement import Required
from stallbench.verdicts.attribution import Attribution
from stallbench.verdicts.check import Finding, Severity
from stallbench.verdicts.outcome import Outcome

REQUIREMENT_WORDS: Mapping[Required, tuple[str, str]] = {
    "survives": ("survived", "did not survive"),
    "unaffected": ("was unaffected", "was affected"),
    "recovers": ("recovered", "did not recover"),
    "safe": ("kept every job safe", "did not keep every job safe"),
}
"""What is said of a queue that meets a requirement, and of one that does not."""
FORMAT = 2
"""Of ``verdict.json``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How the run ended (`status`), and what it shows (`verdict`)."""

    run: str
    status: str
    """How the run ended: ``completed``, ``aborted``, ``failed``, ``running``."""
    verdict: Literal["pass", "fail", "unknown"]
    reason: str
    outcome: Outcome | None = None
    """What happened to the queue; none if a server was only observed, or if the tables cannot say it (`no_outcome`)."""
    no_outcome: str = ""
    attribution: Attribution
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, object]:
        """Return it for ``verdict.json``."""
        return {
            "format": FORMAT,
            "run": self.run,
            "status": self.status,
            "verdict": self.verdict,
            "reason": self.reason,
            "outcome": self.outcome.as_json() if self.outcome else None,
            "no_outcome": self.no_outcome,
            "attribution": self.attribution.as_json(),
            "findings": [finding.as_json() for finding in self.findings],
        }


def decide(
    record: RunRecord,
    findings: Sequence[Finding],
    attribution: Attribution,
    outcome: Outcome | None = None,
    no_outcome: str = "",
) -> Verdict:
    """Return fail if a finding fails, else unknown if one is unknown, else pass. A run that did not complete never passes; info is ignored."""
    status = record.status
    failed = [finding for finding in findings if finding.result == "fail"]
    unknown = [finding for finding in findings if finding.result == "unknown"]
    reasons = [(finding.severity, finding.reason) for finding in failed or unknown]
    if status != "completed":
        reasons.append((Severity.RUN_INCOMPLETE, f"the run was {status}: {record.reason or 'no reason was recorded'}"))
    return Verdict(
        run=record.id,
        status=status,
        verdict="fail" if failed else "unknown" if reasons else "pass",
        reason=_describe_worst(reasons) if reasons else _describe_pass(record),
        outcome=outcome,
        no_outcome=no_outcome,
        attribution=attribution,
        findings=tuple(findings),
    )


def _describe_worst(reasons: Sequence[tuple[Severity, str]]) -> str:
    """Return the most severe reason (the first of several equally severe ones) and how many others there are."""
    _, worst = min(reasons, key=lambda each: each[0])
    return worst + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else "")


def describe_required(record: RunRecord) -> str:
    """Return what a queue is that meets all that the scenario requires; empty if it requires nothing."""
    return ", ".join(REQUIREMENT_WORDS[each.outcome][0] for each in record.scenario.require)


def describe_expected(record: RunRecord) -> str:
    """Return that all expectations hold, or that there are none; empty if there are none but requirements."""
    if record.scenario.require and not record.scenario.expect:
        return ""
    return {
        0: "there are no expectations, so nothing that was found was judged"
        if record.is_observation
        else "the scenario has no expectations",
        1: "the expectation holds",
    }.get(len(record.scenario.expect), f"all {len(record.scenario.expect)} expectations hold")


def _describe_pass(record: RunRecord) -> str:
    hold = ", ".join(part for part in (describe_required(record), describe_expected(record)) if part)
    expectations = record.scenario.expect
    if record.is_observation:
        return hold
    if record.scenario.require:
        return f"the queue {hold}"
    if any(one.limits("lost.count") or one.limits("re_completed.count") for one in expectations):
        return f"{hold}; no more jobs were lost or re-executed than the expectations allow"
    return f"{hold}; no job was lost, and none was re-executed without a reason"
