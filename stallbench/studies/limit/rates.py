"""Decides which rate is tried next: a ramp until one rate is sustained and another is not, bisection between them, then both ends once more. Runs on
one machine differ. If the second run at an end contradicts the first, the interval becomes wider: its lower end is the highest rate that was
sustained and is below every rate that was not sustained. Its upper end is the lowest rate that was not sustained and is above every rate that was
sustained. If no rate that was tried can be such an end, the ramp goes on until one is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

RAMP = 1.5
"""Each rate of the upward ramp is this many times the previous one."""
DESCENT = 0.5
_LEAST_RATE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where the limit is, in jobs per second."""

    low: float | None
    """The highest rate that was sustained and is below every rate that was not; none if there is none."""
    high: float | None
    """The lowest rate that was not sustained and is above every rate that was; none if there is none."""

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are known."""
        return self.low is not None and self.high is not None

    def is_within(self, precision: float) -> bool:
        """Whether the upper end is at most ``precision`` (as a share) above the lower one."""
        return self.low is not None and self.high is not None and self.high <= self.low * (1 + precision)


def find_interval(results: Sequence[tuple[float, bool]]) -> Interval:
    """Return where the limit is after ``results``: rates, and whether each was sustained."""
    sustained = [rate for rate, is_sustained in results if is_sustained]
    missed = [rate for rate, is_sustained in results if not is_sustained]
    first_missed, last_sustained = min(missed, default=math.inf), max(sustained, default=0.0)
    return Interval(
        low=max((rate for rate in sustained if rate < first_missed), default=None),
        high=min((rate for rate in missed if rate > last_sustained), default=None),
    )


def is_contradictory(results: Sequence[tuple[float, bool]]) -> bool:
    """Whether a rate was not sustained although the same rate or a higher one was."""
    missed = [rate for rate, is_sustained in results if not is_sustained]
    return any(rate >= min(missed, default=math.inf) for rate, is_sustained in results if is_sustained)


def find_next_rate(
    results: Sequence[tuple[float, bool]],
    *,
    start: float,
    precision: float,
    confirms: bool = True,
    decisive: float | None = None,
) -> float | None:
    """Return the rate to try next; none if nothing is left to try.

    ``start``: the first rate. ``precision``: how far, as a share, the ends of the interval may be apart. ``confirms``: whether both ends are
    tried once more. ``decisive``: a rate that is also tried if it is between the ends, so that it is known whether the limit is above or below it.
    """
    if not results:
        return _round(start)
    interval = find_interval(results)
    if interval.high is None:
        return _round(max(rate for rate, _ in results) * RAMP)
    if interval.low is None:
        lower = _round(min(rate for rate, _ in results) * DESCENT)
        return lower if lower >= _LEAST_RATE else None
    if is_contradictory(results):
        return None
    middle = None if interval.is_within(precision) else _round(math.sqrt(interval.low * interval.high))
    for between in (middle, decisive):
        if between is not None and interval.low < between < interval.high:
            return between
    tried = [rate for rate, _ in results]
    times = 2 if confirms else 1
    return next((rate for rate in (interval.low, interval.high) if tried.count(rate) < times), None)


def _round(rate: float) -> float:
    return float(f"{rate:.3g}")
