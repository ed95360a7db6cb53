"""The end of a run on the terminal: its findings, and last what happened to the queue and what was asked."""

from __future__ import annotations

from rich.markup import escape

from stallbench.report.outcome_text import describe_outcome, describe_verdict, find_ending, find_help
from stallbench.run.record import RunRecord
from stallbench.run.view import print_findings
from stallbench.verdicts import Verdict


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
