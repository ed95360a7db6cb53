"""Prints the outcome of a torture: a table of points and promises, what happened where one is broken, and how to repeat that."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stallbench.console import VisibleConsole
from stallbench.report.terminal import format_words
from stallbench.studies.torture.outcome import PROMISES, State, TrialOutcome
from stallbench.studies.torture.plan import TorturePlan
from stallbench.studies.torture.record import TortureRecord

_WIDTH = 160
_MARKS: Mapping[State, str] = {
    "holds": "[green]holds[/]",
    "broken": "[bold red]BROKEN[/]",
    "unknown": "[yellow]unknown[/]",
    "not promised": "[bright_black]-[/]",
}


def print_torture(record: TortureRecord, report: str, console: Console | None = None) -> None:
    """Print the outcome, and the path of the ``report``."""
    console = console or VisibleConsole(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    plan, outcome = record.plan, record.outcome
    table = Table(title=f"{plan.kind} on {plan.engine}, seed {plan.seed}", title_justify="left")
    for title in ("point", "action", "times", *PROMISES.values()):
        table.add_column(title, justify="right" if title == "times" else "left")
    for each in outcome.trials:
        marks = [_MARKS[each.state_of(check)] for check in PROMISES]
        table.add_row(str(each.trial.point), each.trial.action, str(each.hits), *marks)
    console.print()
    console.print(table)
    for each in outcome.trials:
        for reason in each.reasons:
            console.print(f"\n[bold]{each.trial.point}, {each.trial.action}[/]: {escape(str(reason))}", soft_wrap=True)
        if not each.is_sound:
            console.print(f"  {escape(describe_repetition(plan, each))}", soft_wrap=True)
    for reason in outcome.elsewhere:
        console.print(f"\n[bold]at no known point[/]: {escape(str(reason))}", soft_wrap=True)
    if outcome.elsewhere:
        console.print(f"  repeat, with all points: {escape(plan.command)}", soft_wrap=True)
    for reason in outcome.undecided:
        console.print(f"\n[bold]could not be judged[/]: {escape(str(reason))}", soft_wrap=True)
    if record.status != "completed":
        console.print(f"\n{escape(record.progress)}", soft_wrap=True)
    if record.progress != record.words.sentence:
        console.print(f"\n{format_words(record.words)}", soft_wrap=True)
    console.print(f"report: {report}", soft_wrap=True)


def describe_repetition(plan: TorturePlan, each: TrialOutcome) -> str:
    """Return the command that tries again what was broken at a point: the point alone, or all of them if its jobs were hit at several."""
    if each.needs_others:
        return f"repeat, with all points, because a job was hit at several: {plan.command}"
    return f"repeat: {plan.describe_command(each.trial)}"
