"""When a collector is asked: at fixed times from its start, so that its samples do not drift, and no more than it can bear."""

from __future__ import annotations

_GREATEST_SHARE = 0.25
"""Of the time that a collector may take. One whose question has become dear (a count over a million rows) is asked less often,
instead of becoming the load that it is to measure."""
_LONGEST_REST_S = 5.0
"""After a sample that took very long: it may have been the only one."""


class Cadence:
    """Beats at equal intervals. One that is missed is left out and counted, not made up for."""

    def __init__(self, interval_s: float, start_s: float) -> None:
        """Beat at ``start_s`` of the monotonic clock, and every ``interval_s`` after it."""
        self._interval_s = interval_s
        self._start_s = start_s
        self._beat: int | None = None
        self.missed = 0
        """Beats that were left out so far."""

    def next_s(self, began_s: float, ended_s: float) -> float:
        """Return when the next beat is, after a sample that took from ``began_s`` to ``ended_s``."""
        took_s = ended_s - began_s
        rest_s = min(took_s / _GREATEST_SHARE - took_s, _LONGEST_REST_S)
        beat = int((ended_s + rest_s - self._start_s) // self._interval_s) + 1
        if self._beat is not None:
            beat = max(beat, self._beat + 1)
            self.missed += beat - self._beat - 1
        self._beat = beat
        return self._start_s + beat * self._interval_s
