"""What the terminal shows of a soak at its end: how many cycles passed, which was the first that did not, and what drifts."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stallbench.soak.drift import LEVEL, Drift
from stallbench.soak.record import SoakRecord
from stallbench.soak.report import describe_outcome, find_notes, format_drift

_WIDTH = 120


def print_soak(record: SoakRecord, drifts: Mapping[str, Drift | None], report: str, *, goes_on: bool = False) -> None:
    """Print the outcome so far if it ``goes_on``, else in the end, the figures that drift, and where the ``report`` is."""
    console = Console(highlight=False)
    console = Console(highlight=False, width=min(console.width, _WIDTH) if console.is_terminal else _WIDTH)
    console.print()
    found = [(name, drift) for name, drift in drifts.items() if drift]
    real = [(name, drift) for name, drift in found if drift.is_significant]
    if real:
        console.print(_table(real))
    decided = [drift for _, drift in found if drift.is_significant is not None]
    if decided:
        console.print(f"{len(real)} of {len(decided)} figures drift; the report has all of them")
    for note in find_notes(record, goes_on=goes_on):
        console.print(f"[yellow]{escape(note)}[/]")
    word, colour = (
        ("PASS", "green") if record.exit_code == 0 else ("FAIL", "red") if record.first_failed else ("UNKNOWN", "yellow")
    )
    console.print(f"\n[bold {colour}]{word}[/]  {escape(describe_outcome(record))}")
    console.print(f"report: {report}", soft_wrap=True)


def _table(real: list[tuple[str, Drift]]) -> Table:
    table = Table(title="what drifts", title_justify="left")
    table.add_column("figure", overflow="fold")
    for header in ("median", "an hour", f"{LEVEL * 100:.0f} % interval", "of the median"):
        table.add_column(header, justify="right")
    for name, drift in real:
        told = format_drift(name, drift)
        table.add_row(escape(name), told["level"], told["slope"], told["interval"], told["relative"])
    return table
