"""Decides when a collector samples: at fixed times from its start, so that samples do not drift, and less often if sampling is slow."""

from __future__ import annotations

_GREATEST_SHARE = 0.25
"""Share of the time that a collector may take. A collector whose query has become expensive (a count over a million rows) samples less often,
so that it does not become the load that it measures."""
_LONGEST_REST_S = 5.0
"""After a sample that took very long: it may have been the only one."""


class Cadence:
    """Sampling times at equal intervals. A missed sample is counted and not taken later."""

    def __init__(self, interval_s: float, start_s: float) -> None:
        """Sample at ``start_s`` on the monotonic clock, and every ``interval_s`` after it."""
        self._interval_s = interval_s
        self._start_s = start_s
        self._tick: int | None = None
        self.missed = 0
        """Samples missed so far."""

    def next_s(self, began_s: float, ended_s: float) -> float:
        """Return when the next sample is due, after one that took from ``began_s`` to ``ended_s``."""
        took_s = ended_s - began_s
        is_first = self._tick is None  # it includes the connection, so it does not show what a sample takes
        rest_s = 0.0 if is_first else min(took_s / _GREATEST_SHARE - took_s, _LONGEST_REST_S)
        tick = int((ended_s + rest_s - self._start_s) // self._interval_s) + 1
        if self._tick is not None:
            tick = max(tick, self._tick + 1)
            self.missed += tick - self._tick - 1
        self._tick = tick
        return self._start_s + tick * self._interval_s
