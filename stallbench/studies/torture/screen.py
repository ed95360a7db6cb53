"""Prints the outcome of a torture: a table of points and promises, what happened where one is broken, and how to repeat that."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stallbench.console import VisibleConsole
from stallbench.studies.torture.outcome import PROMISES, State, TortureOutcome, TrialOutcome
from stallbench.studies.torture.torture import TorturePlan

_WIDTH = 140
_MARKS: Mapping[State, str] = {
    "holds": "[green]holds[/]",
    "broken": "[bold red]BROKEN[/]",
    "unknown": "[yellow]unknown[/]",
    "not promised": "[bright_black]-[/]",
}


def print_torture(plan: TorturePlan, outcome: TortureOutcome, folder: str, console: Console | None = None) -> None:
    """Print the outcome, and the path of the ``folder`` with the runs."""
    console = console or VisibleConsole(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    table = Table(title=f"{plan.kind} on {plan.engine}, seed {plan.seed}", title_justify="left")
    for title in ("point", "action", "times", *PROMISES.values()):
        table.add_column(title, justify="right" if title == "times" else "left")
    for each in outcome.trials:
        table.add_row(str(each.trial.point), each.trial.action, str(each.hits), *_marks(each))
    console.print()
    console.print(table)
    for each in outcome.trials:
        for reason in each.reasons:
            console.print(f"\n[bold]{each.trial.point}, {each.trial.action}[/]: {escape(reason)}", soft_wrap=True)
        if not each.is_sound:
            console.print(f"  repeat: {escape(plan.describe_command(each.trial))}", soft_wrap=True)
    for text in outcome.elsewhere:
        console.print(f"\n[bold]at no known point[/]: {escape(text)}", soft_wrap=True)
    for text in outcome.undecided:
        console.print(f"\n[bold]could not be judged[/]: {escape(text)}", soft_wrap=True)
    broken = sum(state == "broken" for each in outcome.trials for state in each.states.values()) + len(outcome.elsewhere)
    unknown = [each for each in outcome.trials if "unknown" in each.states.values()]
    if outcome.exit_code == 0:
        console.print("\n[bold green]PASS[/]  every promise holds at every point")
    elif broken:
        console.print(f"\n[bold red]FAIL[/]  {broken} promises are broken")
    else:
        what = f"{len(unknown)} points" if unknown else "the runs"
        console.print(f"\n[bold yellow]UNKNOWN[/]  {what} could not be judged completely")
    console.print(f"the runs: {folder}", soft_wrap=True)


def _marks(each: TrialOutcome) -> list[str]:
    return [_MARKS[each.states.get(check, "unknown")] for check in PROMISES]
