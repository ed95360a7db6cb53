"""Shows a run on the terminal while it is active."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from stallbench.console import VisibleConsole
from stallbench.measures import MEASURES, split_metric
from stallbench.run.live_figures import LiveFigures

_LINE_EVERY_S = 5.0
_PHASE, _NARROWEST, _HEADING_LINES = 12, 7, 2
"""Of the rows elsewhere than on a terminal: characters of the column of phases, of the narrowest other one, and lines of a heading. A row with all
columns is less than 120 characters long, as CI shows it without a break."""
_LONGEST_SENTENCE = 110


class RunView:
    """Redraws a panel on a terminal; prints one line every few seconds elsewhere (a file, a CI log)."""

    def __init__(self, console: Console | None = None) -> None:
        """Print to ``console``; to standard output if it is None."""
        self._console = console or VisibleConsole(highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self._console.is_terminal else None
        self._began_s = time.monotonic()
        self._last_line_s = float("-inf")
        self._headings: list[list[str]] = []
        self._holder: str | None = None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def say(self, sentence: str) -> None:
        """Print one permanent line."""
        self._console.print(f"[dim]{self._elapsed_s:6.1f} s[/dim]  {escape(sentence)}")

    def show(self, phase: str, left_s: float, read_figures: Callable[[], LiveFigures]) -> None:
        """Show the phase and the live figures. Call it about once a second: ``read_figures`` is called only if they are shown."""
        if self._live:
            self._live.update(_panel(phase, left_s, read_figures()), refresh=True)
        elif time.monotonic() - self._last_line_s >= _LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self._print_row(phase, left_s, read_figures())

    def show_progress(self, sentence: str) -> None:
        """Show what is going on now. Call it about once a second: elsewhere than on a terminal it prints a line every few seconds."""
        if self._live:
            self._live.update(f"[dim]{self._elapsed_s:6.1f} s[/dim]  {escape(sentence)}", refresh=True)
        elif time.monotonic() - self._last_line_s >= _LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self.say(sentence)

    def _print_row(self, phase: str, left_s: float, figures: LiveFigures) -> None:
        """Print the figures in columns, below their headings if these are not those of the row before; and who holds the horizon, if that has changed."""
        shown = list_shown(figures)
        headings = [["", "phase"], ["left", "s"], *(_wrap_heading(f"{each.label} {each.unit}".rstrip()) for each in shown)]
        cells = [phase, f"{left_s:.0f}", *(each.value for each in shown)]
        widths = [_PHASE, 4, *(max(_NARROWEST, *map(len, heading)) for heading in headings[2:])]
        if headings != self._headings:
            self._headings = headings
            for line in range(_HEADING_LINES):
                self._console.print(escape(f"{'':10}{_align([heading[line] for heading in headings], widths)}"), style="dim")
        self.say(_align(cells, widths))
        if figures.holder != self._holder:
            self._holder = figures.holder
            held = f"held by {figures.holder}" if figures.holder else "held by no long transaction any more"
            self.say(f"horizon {held}"[:_LONGEST_SENTENCE])

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s


def _panel(phase: str, left_s: float, figures: LiveFigures) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim")
    table.add_column()
    table.add_row("phase", f"[bold]{phase}[/bold], {left_s:.0f} s left")
    for shown in list_shown(figures):
        table.add_row(shown.label, f"{shown.value} {shown.unit}".rstrip())
    table.add_row("horizon held by", escape(figures.holder or "no long transaction"))
    return table


class ShownFigure(NamedTuple):
    """A figure of the last seconds, as text."""

    label: str
    value: str
    unit: str


def list_shown(figures: LiveFigures) -> list[ShownFigure]:
    """Return the figures that this queue has on all engines, ``?`` if unknown, then those that only this engine has."""
    of_claims = (("claim_ms.p95", figures.claim_ms_p95, ".2f"),) if figures.times_claims else ()
    of_every_engine = (
        ("enqueued.rate", figures.enqueued_rate, ".0f"),
        ("completed.rate", figures.completed_rate, ".0f"),
        ("depth", figures.depth, ","),
        *of_claims,
    )
    of_this_engine = (
        ("dead_tuples", figures.dead_tuples, ","),
        ("history_list_length", figures.history_list_length, ","),
        ("deadlocks", figures.deadlocks, ","),
        ("oldest_transaction_s", figures.oldest_transaction_s, ".0f"),
    )
    return [
        *(_show(*figure) for figure in of_every_engine),
        *(_show(*figure) for figure in of_this_engine if figure[1] is not None),
    ]


def _show(metric: str, value: float | None, form: str) -> ShownFigure:
    """Return a figure with the label and unit of its measure. A ``metric`` without a statistic is the latest sample."""
    name, statistic = split_metric(metric)
    measure = MEASURES[name]
    label = measure.label_of(statistic) if statistic else measure.label
    return ShownFigure(label, "?" if value is None else f"{value:{form}}", measure.unit_of(statistic))


def _align(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a row of a table: the first column begins at the left, the others end at the right."""
    first, *others = (
        cell[:width] if number == 0 else cell for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([f"{first:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))])


def _wrap_heading(text: str) -> list[str]:
    """Return the heading of a column in as many lines as each has, in the narrowest way."""
    for width in range(1, len(text) + 1):
        lines = textwrap.wrap(text, width, break_long_words=False)
        if len(lines) <= _HEADING_LINES and max(map(len, lines)) <= width:
            return [*[""] * (_HEADING_LINES - len(lines)), *lines]
    return ["", text]
