"""The end of a run on the terminal: its findings, and last what happened to the queue and what was asked."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from stallbench.console import VisibleConsole
from stallbench.report.outcome_text import describe_outcome, describe_verdict, find_ending, find_help
from stallbench.run.record import RunRecord
from stallbench.verdicts import Verdict
from stallbench.verdicts.check import Finding

_COLOURS = {"pass": "green", "fail": "red", "unknown": "yellow", "info": "bright_black"}
"""By result of a check, on the terminal."""


def print_verdict(verdict: Verdict, record: RunRecord, report: str) -> None:
    """Print all findings, the attribution, and last what happened to the queue, the verdict, what ends and what may help it, and the report's path."""
    console = print_findings(verdict)
    console.print(escape(verdict.attribution.sentence))
    if verdict.attribution.sentence.startswith("From "):
        # The times at the beginning of the lines above count from the start of the command.
        console.print("(seconds since the first phase began, as in the report)")
    console.print()
    if outcome := describe_outcome(record, verdict):
        console.print(escape(outcome), style="bold")
    console.print(escape(describe_verdict(record, verdict)))
    if ending := find_ending(record, verdict):
        console.print(
            escape(f"{ending.sentence}{f' While it lasts, this ends it: {ending.statement}' if ending.statement else ''}")
        )
    if help_ := find_help(record, verdict):
        console.print(escape(f"{help_.sentence}\n  {help_.command}"))
    console.print(f"report: {report}")


def print_findings(verdict: Verdict) -> Console:
    """Print all findings and the verdict with its reason; returns where."""
    console = VisibleConsole(highlight=False, soft_wrap=True)
    console.print()
    for finding in verdict.findings:
        console.print(format_finding(finding))
    console.print()
    console.print(f"{format_result(verdict.verdict)}  {escape(verdict.reason)}")
    return console


def format_finding(finding: Finding) -> str:
    """Return a line of rich's markup."""
    return f"  [{_COLOURS[finding.result]}]{finding.result:<8}[/] {escape(finding.reason)}"


def format_result(result: str) -> str:
    """Return the result of everything together, in large letters and its colour, in rich's markup."""
    return f"[bold {_COLOURS[result]}]{result.upper()}[/]"
