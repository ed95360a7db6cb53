"""What the terminal shows of a soak, for as long as there is one; what is said is also kept."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

from stallbench.run.live_figures import LiveFigures
from stallbench.run.view import RunView

_SHOW_EVERY_S = 30.0


class SoakView(RunView):
    """A line now and then. A terminal that goes away takes nothing with it: from then on everything goes to the log."""

    def __init__(self, log: Path) -> None:
        """Append to ``log`` what is said."""
        super().__init__()
        self._live = None
        self._log = log.open("a", buffering=1)
        self._shown_s = float("-inf")
        self._is_alone = False
        """Whether nobody else reads what is printed."""

    def say(self, sentence: str) -> None:
        """Print one line, and keep it with the time of day."""
        self._log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {sentence}\n")
        if self._is_alone:
            return
        try:
            print(f"{time.monotonic() - self._began_s:7.1f} s  {sentence}", flush=True)
        except OSError:
            self._turn_to_log()

    def show(self, phase: str, left_s: float, figures: LiveFigures) -> None:
        """Show where the cycle is, not as often as a run does."""
        if time.monotonic() - self._shown_s >= _SHOW_EVERY_S:
            self._shown_s = time.monotonic()
            super().show(phase, left_s, figures)

    def _turn_to_log(self) -> None:
        self._is_alone = True
        for stream in (1, 2):
            os.dup2(self._log.fileno(), stream)
