"""Shows a run on the terminal while it is active, and its verdict at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from stallbench.run.live_figures import LiveFigures

if TYPE_CHECKING:
    from stallbench.verdicts import Verdict

_LINE_EVERY_S = 5.0


class RunView:
    """Redraws a panel on a terminal; prints one line every few seconds elsewhere (a file, a CI log)."""

    def __init__(self, console: Console | None = None) -> None:
        """Print to ``console``; to standard output if it is None."""
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self._console.is_terminal else None
        self._began_s = time.monotonic()
        self._last_line_s = float("-inf")

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def say(self, sentence: str) -> None:
        """Print one permanent line."""
        self._console.print(f"[dim]{time.monotonic() - self._began_s:6.1f} s[/dim]  {escape(sentence)}")

    def show(self, phase: str, left_s: float, read_figures: Callable[[], LiveFigures]) -> None:
        """Show the phase and the live figures. Call it about once a second: ``read_figures`` is called only if they are shown."""
        if self._live:
            self._live.update(_panel(phase, left_s, read_figures()), refresh=True)
        elif time.monotonic() - self._last_line_s >= _LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self.say(_line(phase, left_s, read_figures()))


def _panel(phase: str, left_s: float, figures: LiveFigures) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim")
    table.add_column()
    table.add_row("phase", f"[bold]{phase}[/bold], {left_s:.0f} s left")
    table.add_row("enqueued", _figure(figures.enqueued_rate, "{:,.0f} jobs/s"))
    table.add_row("completed", _figure(figures.completed_rate, "{:,.0f} jobs/s"))
    table.add_row("depth", _figure(figures.depth, "{:,}"))
    table.add_row("claim time p95", _figure(figures.claim_ms_p95, "{:.2f} ms"))
    for label, value, form in _engine_figures(figures):
        table.add_row(label, form.format(value))
    table.add_row("horizon held by", escape(figures.holder or "no long transaction"))
    return table


def _engine_figures(figures: LiveFigures) -> list[tuple[str, float, str]]:
    """Return the label, value and format of each figure that this engine has and others do not."""
    candidates = (
        ("dead tuples", figures.dead_tuples, "{:,}"),
        ("history list", figures.history_list_length, "{:,}"),
        ("deadlocks", figures.deadlocks, "{:,}"),
        ("oldest transaction", figures.oldest_transaction_s, "{:.0f} s"),
    )
    return [(label, value, form) for label, value, form in candidates if value is not None]


def _line(phase: str, left_s: float, figures: LiveFigures) -> str:
    engine_part = "".join(f"{label} {form.format(value)}  " for label, value, form in _engine_figures(figures))
    return (
        f"{phase:<10} {left_s:3.0f} s left  "
        f"in {_figure(figures.enqueued_rate, '{:5.0f}/s')}  out {_figure(figures.completed_rate, '{:5.0f}/s')}  "
        f"depth {_figure(figures.depth, '{:6d}')}  claim p95 {_figure(figures.claim_ms_p95, '{:7.2f} ms')}  "
        f"{engine_part}held by {figures.holder or '-'}"
    )


def _figure(value: float | None, form: str) -> str:
    return "?" if value is None else form.format(value)


_COLOURS = {"pass": "green", "fail": "red", "unknown": "yellow", "info": "bright_black"}


def print_verdict(verdict: Verdict, report: str) -> None:
    """Print all findings, the verdict with its reason, the attribution, and the path of the report."""
    console = print_findings(verdict)
    console.print(escape(verdict.attribution.sentence))
    console.print(f"report: {report}")


def print_findings(verdict: Verdict) -> Console:
    """Print all findings and the verdict with its reason; returns where."""
    console = Console(highlight=False, soft_wrap=True)
    console.print()
    for finding in verdict.findings:
        console.print(f"  [{_COLOURS[finding.result]}]{finding.result:<8}[/] {escape(finding.reason)}")
    console.print()
    console.print(f"[bold {_COLOURS[verdict.verdict]}]{verdict.verdict.upper()}[/]  {escape(verdict.reason)}")
    return console
