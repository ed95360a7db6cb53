"""What was decided against a baseline (``--against``), as the findings of a study."""

from __future__ import annotations

from rich.console import Console

from stallbench.report.terminal import format_finding, format_result
from stallbench.verdicts.baseline.change import Change
from stallbench.verdicts.check import WORST_FIRST, Finding, Result, Severity

CHECK = "regression"


def as_finding(change: Change) -> Finding:
    """Return what was decided about one metric as a finding."""
    return Finding(
        check=CHECK,
        subject=f"{change.title} against the baseline",
        result=change.result,
        reason=change.reason,
        severity=Severity.REGRESSION,
        expected=change.expected,
        found=change.found,
    )


def make_finding(variant: str, result: Result, reason: str) -> Finding:
    """Return a finding about a variant as a whole."""
    return Finding(
        check=CHECK,
        subject=f"{variant} against the baseline",
        result=result,
        reason=f"{variant}: {reason}",
        severity=Severity.REGRESSION,
    )


def describe_outcome(regressions: tuple[Finding, ...]) -> str:
    """Return ``fail`` if a finding fails, else ``unknown`` if one is unknown or none could be decided, else ``pass``; empty without findings."""
    if not regressions:
        return ""
    decided = {finding.result for finding in regressions} - {"info"}
    return min(decided, key=WORST_FIRST.index, default="unknown")


def print_regressions(regressions: tuple[Finding, ...], console: Console) -> None:
    """Print a line for each finding, and the outcome; nothing if there is none."""
    for finding in regressions:
        console.print(format_finding(finding))
    if outcome := describe_outcome(regressions):
        console.print(f"{format_result(outcome)}  against the baseline")
