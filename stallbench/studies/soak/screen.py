"""Prints a soak to the terminal: messages while it runs, and its outcome at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from stallbench.console import TABLE_WIDTH, VisibleConsole
from stallbench.report.terminal import format_words
from stallbench.run.live_figures import LiveFigures
from stallbench.run.panel import RunProgress
from stallbench.run.shown_figures import list_shown
from stallbench.run.view import RunView
from stallbench.studies.regressions import print_regressions
from stallbench.studies.soak.drift import Drift
from stallbench.studies.soak.record import SoakRecord
from stallbench.studies.soak.report import describe_adjustment, find_notes, format_drift
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL
from stallbench.visible_text import say

_SHOW_EVERY_S = 30.0


class SoakView(RunView):
    """Prints one line from time to time. When the terminal is closed, everything goes to the log instead."""

    def __init__(self, log: Path) -> None:
        """Append all messages to ``log``."""
        super().__init__()
        self._live = None
        self._log = log.open("a", buffering=1)
        self._shown_s = float("-inf")
        self._is_detached = False
        """Whether the terminal is closed."""

    def say(self, sentence: str) -> None:
        """Print one line, and append it to the log with the time."""
        self._log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {sentence}\n")
        if self._is_detached:
            return
        try:
            say(f"{time.monotonic() - self._began_s:7.1f} s  {sentence}", flush=True)
        except OSError:
            self._detach()

    def show(self, at: RunProgress, read_figures: Callable[[], LiveFigures]) -> None:
        """Show the progress of the cycle, less often than a run does."""
        if time.monotonic() - self._shown_s >= _SHOW_EVERY_S:
            self._shown_s = time.monotonic()
            super().show(at, read_figures)

    def _print_row(self, at: RunProgress, figures: LiveFigures) -> None:
        """Say the figures in one line: as a message they are in the log, too, and a closed terminal does not end the soak."""
        shown = ", ".join(f"{each.label} {each.value} {each.unit}".rstrip() for each in list_shown(figures))
        self.say(f"{at.phase}, {at.left_s:.0f} s left: {shown}")

    def _detach(self) -> None:
        self._is_detached = True
        for stream in (1, 2):
            os.dup2(self._log.fileno(), stream)


def print_soak(record: SoakRecord, drifts: Mapping[str, Drift | None], report: str) -> None:
    """Print the figures that drift, the findings against a baseline, the outcome (so far, if it is running), and the path of the ``report``."""
    console = VisibleConsole(highlight=False)
    console = VisibleConsole(highlight=False, width=min(console.width, TABLE_WIDTH) if console.is_terminal else TABLE_WIDTH)
    console.print()
    found = [(name, drift) for name, drift in drifts.items() if drift]
    significant = [(name, drift) for name, drift in found if drift.is_significant]
    if significant:
        console.print(_make_table(significant))
    if adjustment := describe_adjustment(drifts):
        console.print(f"{escape(adjustment)} The report has all of them.")
    for note in find_notes(record):
        console.print(f"[yellow]{escape(note)}[/]")
    print_regressions(record.regressions, console)
    console.print(f"\n{format_words(record.words)}", soft_wrap=True)
    console.print(f"report: {report}", soft_wrap=True)


def _make_table(significant: list[tuple[str, Drift]]) -> Table:
    table = Table(title="significant drift", title_justify="left")
    table.add_column("figure", overflow="fold")
    for header in ("median", "per hour", f"{CONFIDENCE_LEVEL * 100:.0f} % confidence interval", "of the median"):
        table.add_column(header, justify="right")
    for name, drift in significant:
        row = format_drift(name, drift)
        table.add_row(escape(name), row.level, row.slope, row.interval, row.relative)
    return table
