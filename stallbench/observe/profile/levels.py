"""Describes a rate that changes over time by few constant levels, which a scenario can repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MOST_LEVELS = 8
SHORTEST_S = 5.0
"""A burst's producer needs up to half a second to start."""
_LEAST_DIFFERENCE = 0.1
"""Of two rates, as a share of the higher one, below which they are one level."""
_SIGNIFICANT = 3.0
"""Standard deviations between two rates below which their difference may be chance, if jobs arrive independently of one another."""
_MOST_SPANS = 600


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a number of jobs was enqueued."""

    length_s: float
    jobs: float

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / self.length_s

    def __add__(self, other: Span) -> Span:
        """Return both as one."""
        return Span(self.length_s + other.length_s, self.jobs + other.jobs)


def find_levels(spans: Sequence[Span]) -> list[Span]:
    """Join neighbours whose rates hardly differ, then the shortest, then the most similar, until at most `MOST_LEVELS` are left.

    The number of jobs stays the same.
    """
    levels = _bound(spans)
    while len(levels) > 1:
        pairs = list(pairwise(levels))
        alike = [index for index, (one, other) in enumerate(pairs) if _are_alike(one, other)]
        short = [index for index, pair in enumerate(pairs) if min(each.length_s for each in pair) < SHORTEST_S]
        candidates = alike or short or (list(range(len(pairs))) if len(levels) > MOST_LEVELS else [])
        if not candidates:
            break
        joined = min(candidates, key=lambda index: _deviations(*pairs[index]))
        levels[joined : joined + 2] = [levels[joined] + levels[joined + 1]]
    return levels


def _bound(spans: Sequence[Span]) -> list[Span]:
    """Join neighbours so that the search above stays quick after a day of observation."""
    step = -(-len(spans) // _MOST_SPANS) or 1
    groups = [spans[first : first + step] for first in range(0, len(spans), step)]
    return [Span(sum(one.length_s for one in group), sum(one.jobs for one in group)) for group in groups]


def _are_alike(one: Span, other: Span) -> bool:
    difference = abs(one.rate - other.rate)
    return difference <= _LEAST_DIFFERENCE * max(one.rate, other.rate) or _deviations(one, other) < _SIGNIFICANT


def _deviations(one: Span, other: Span) -> float:
    both = (one + other).rate
    if not both:
        return 0.0
    return float(abs(one.rate - other.rate) / (both / one.length_s + both / other.length_s) ** 0.5)
