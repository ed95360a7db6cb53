"""The panel of a run on a terminal: one bar for all phases, what is in force, and each figure with its curve since the start. Fits 100 columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from stallbench.run.live_figures import LiveFigures
from stallbench.run.shown_figures import list_shown_on_terminal

_WIDTH = 100
_BAR, _CURVE, _LABEL = 60, 40, 24
_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a run has come."""

    phase: str
    number: int
    """Of the phase, from 1."""
    phases: int
    left_s: float
    """Of the phase, at most."""
    done_s: float
    """Planned duration of the phases before this one, and what this one has lasted."""
    whole_s: float
    """Planned duration of all phases."""
    may_end_earlier: bool
    """Whether this phase or a later one ends when something has happened."""
    in_force: Sequence[str] = ()
    """The faults and longrunners that are active."""

    @property
    def run_left_s(self) -> float:
        """Of all phases."""
        return max(0.0, self.whole_s - self.done_s)


class Curve:
    """The values of one figure since the start, as many as fit into a line: the greatest of each part of the time."""

    def __init__(self, width: int = _CURVE) -> None:
        """Know no value. ``width``: characters."""
        self._width = width
        self._values: list[float | None] = []
        self._per_value = 1
        self._part: list[float | None] = []

    def add(self, value: float | None) -> None:
        """Add the value of this moment, none if it is unknown."""
        self._part.append(value)
        if len(self._part) < self._per_value:
            return
        self._values.append(_find_greatest(self._part))
        self._part = []
        if len(self._values) > self._width:
            pairs = [self._values[at : at + 2] for at in range(0, len(self._values), 2)]
            self._part = pairs.pop() if len(pairs[-1]) == 1 else []
            self._values = [_find_greatest(pair) for pair in pairs]
            self._per_value *= 2

    @property
    def greatest(self) -> float | None:
        """The greatest value since the start."""
        return _find_greatest([*self._values, *self._part])

    def __str__(self) -> str:
        """Return one line; the height of a character is the share of the greatest value."""
        values = [*self._values, *([_find_greatest(self._part)] if self._part else [])][-self._width :]
        top = self.greatest or 0.0
        return "".join(
            " " if value is None else _BLOCKS[round((len(_BLOCKS) - 1) * value / top) if top > 0 else 0] for value in values
        )


def _find_greatest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


class Panel:
    """Draws it, and keeps the curves."""

    def __init__(self) -> None:
        """Know no figure."""
        self._curves: dict[str, Curve] = {}

    def draw(self, at: RunProgress, figures: LiveFigures) -> Table:
        """Return the panel with the figures of this moment, which the curves have from now on."""
        panel = Table.grid(padding=0)
        panel.add_column(max_width=_WIDTH)
        panel.add_row(_describe_phase(at))
        panel.add_row(_draw_bar(at))
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="dim", width=_LABEL, no_wrap=True)
        table.add_column(width=14, no_wrap=True)
        table.add_column(width=_CURVE, no_wrap=True, style="cyan")
        table.add_column(no_wrap=True, style="dim")
        for shown in list_shown_on_terminal(figures):
            curve = self._curves.setdefault(shown.label, Curve())
            curve.add(shown.number)
            most = "" if curve.greatest is None else f"most {shown.write(curve.greatest)}"
            table.add_row(shown.label, f"{shown.value} {shown.unit}".rstrip(), str(curve), most)
        panel.add_row(table)
        lines = Table.grid(padding=(0, 2))
        lines.add_column(justify="right", style="dim", width=_LABEL, no_wrap=True)
        lines.add_column(max_width=_WIDTH - _LABEL - 2, no_wrap=True, overflow="ellipsis")
        in_force = ", ".join(at.in_force)
        lines.add_row("in force", Text(in_force or "nothing", style="bold red" if in_force else ""))
        lines.add_row("horizon held by", Text(figures.holder or "no long transaction"))
        panel.add_row(lines)
        return panel


def _describe_phase(at: RunProgress) -> Text:
    at_most = "at most " if at.may_end_earlier else ""
    return Text.assemble(
        ("phase ", "dim"),
        (at.phase, "bold"),
        (
            f" ({at.number} of {at.phases}), {at.left_s:.0f} s left; the phases together: {at_most}{_format_left(at.run_left_s)} left",
            "",
        ),
        no_wrap=True,
        overflow="ellipsis",
    )


def _format_left(seconds: float) -> str:
    minutes, rest_s = divmod(round(seconds), 60)
    return f"{minutes} min {rest_s:02d} s" if minutes else f"{rest_s} s"


def _draw_bar(at: RunProgress) -> Table:
    line = Table.grid(padding=(0, 1))
    line.add_row(
        ProgressBar(total=max(at.whole_s, 1.0), completed=min(at.done_s, at.whole_s), width=_BAR),
        Text(f"{at.done_s / max(at.whole_s, 1.0):.0%} of the phases", style="dim"),
    )
    return line
