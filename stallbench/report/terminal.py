"""The end of a run on the terminal: its findings, and last what happened to the queue and what was asked."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from stallbench.console import VisibleConsole
from stallbench.report.outcome_text import (
    VerdictWords,
    describe_outcome,
    describe_verdict,
    find_ending,
    find_help,
    name_verdict,
    start_sentence,
)
from stallbench.run.record import RunRecord
from stallbench.verdicts import Verdict
from stallbench.verdicts.check import Finding

_COLOURS = {"pass": "green", "fail": "red", "unknown": "yellow", "info": "bright_black"}
"""By result of a check, on the terminal."""


def print_verdict(verdict: Verdict, record: RunRecord, report: str) -> None:
    """Print all findings, the attribution, and last what happened to the queue, the verdict, what ends and what may help it, and the report's path."""
    console = print_findings(verdict)
    console.print()
    console.print(escape(verdict.attribution.sentence))
    if record.faults or verdict.attribution.holders or verdict.attribution.not_sampled:
        # The times at the beginning of the lines above count from the start of the command.
        console.print("(seconds since the first phase began, as in the report)")
    console.print()
    if outcome := describe_outcome(record, verdict):
        console.print(escape(outcome), style="bold")
    print_name_and_reason(console, verdict, record)
    if ending := find_ending(record, verdict):
        console.print(
            escape(
                f"{ending.sentence}{f' During the run, this would have ended it: {ending.statement}' if ending.statement else ''}"
            )
        )
    if help_ := find_help(record, verdict):
        console.print(escape(f"{help_.sentence}\n  {help_.command}"))
    console.print(f"report: {report}")


def print_findings(verdict: Verdict) -> Console:
    """Print all findings; returns where."""
    console = VisibleConsole(highlight=False, soft_wrap=True)
    console.print()
    for finding in verdict.findings:
        console.print(format_finding(finding))
    return console


def print_name_and_reason(console: Console, verdict: Verdict, record: RunRecord) -> None:
    """Print the verdict as a sentence, its name in its colour."""
    name, colour = start_sentence(name_verdict(record, verdict)), _COLOURS[verdict.verdict]
    console.print(f"[bold {colour}]{name}[/]{escape(describe_verdict(record, verdict).removeprefix(name))}")


def format_finding(finding: Finding) -> str:
    """Return a line of rich's markup."""
    return f"  [{_COLOURS[finding.result]}]{finding.result:<8}[/] {escape(finding.reason)}"


def format_words(words: VerdictWords) -> str:
    """Return the sentence of a study's verdict, its name in its colour, in rich's markup."""
    name = start_sentence(words.name)
    return f"[bold {_COLOURS[words.result]}]{escape(name)}[/]{escape(words.sentence.removeprefix(name))}"
