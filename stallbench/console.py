"""The console of tables and colours: no text in it can control the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from stallbench.visible_text import make_visible

TABLE_WIDTH = 120
"""Of tables on a terminal that is wider, and where the output is no terminal."""


class VisibleConsole(Console):
    """Rich's console; texts cannot control the terminal: only Rich's own styles and movements do."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as Rich does, with hidden characters of texts made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(make_visible(segment.text), segment.style)
