"""Shows a run on the terminal while it is active."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from stallbench.console import VisibleConsole
from stallbench.run.live_figures import LiveFigures
from stallbench.run.panel import Panel, RunProgress
from stallbench.run.shown_figures import list_shown

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
        self._panel = Panel()

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

    def show(self, at: RunProgress, read_figures: Callable[[], LiveFigures]) -> None:
        """Show how far the run has come, and its figures. Call it about once a second: ``read_figures`` is called only if they are shown."""
        if self._live:
            self._live.update(self._panel.draw(at, read_figures()), refresh=True)
        elif time.monotonic() - self._last_line_s >= _LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self._print_row(at, read_figures())

    def show_progress(self, sentence: str) -> None:
        """Show what is going on now. Call it about once a second: elsewhere than on a terminal it prints a line every few seconds."""
        if self._live:
            self._live.update(f"[dim]{self._elapsed_s:6.1f} s[/dim]  {escape(sentence)}", refresh=True)
        elif time.monotonic() - self._last_line_s >= _LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self.say(sentence)

    def _print_row(self, at: RunProgress, figures: LiveFigures) -> None:
        """Print the figures in columns, below their headings if these are not those of the row before; and who holds the horizon, if that has changed."""
        shown = list_shown(figures)
        headings = [["", "phase"], ["left", "s"], *(_wrap_heading(f"{each.label} {each.unit}".rstrip()) for each in shown)]
        cells = [at.phase, f"{at.left_s:.0f}", *(each.value for each in shown)]
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
