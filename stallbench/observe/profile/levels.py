"""Describes a rate that changes over time by few constant levels, which a scenario can repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MOST_LEVELS = 8
SHORTEST_S = 5.0
"""Sessions report their inserts about once a second, so the rate of a shorter time says little; a burst's producer starts late by up to a second."""
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


def lengthen(spans: Sequence[Span]) -> list[Span]:
    """Join neighbours until each is at least `SHORTEST_S` long, and of a long observation until there are few enough for a search."""
    shortest_s = max(SHORTEST_S, sum(span.length_s for span in spans) / _MOST_SPANS)
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].length_s < shortest_s:
            joined[-1] += span
        else:
            joined.append(span)
    if len(joined) > 1 and joined[-1].length_s < shortest_s:
        joined[-2:] = [joined[-2] + joined[-1]]
    return joined


def find_levels(spans: Sequence[Span]) -> list[Span]:
    """Join neighbours whose rates hardly differ, then the most similar until at most `MOST_LEVELS` are left. The number of jobs stays the same."""
    levels = list(spans)
    while len(levels) > 1:
        pairs = list(pairwise(levels))
        alike = [index for index, (one, other) in enumerate(pairs) if _are_alike(one, other)]
        candidates = alike or (range(len(pairs)) if len(levels) > MOST_LEVELS else [])
        if not candidates:
            break
        joined = min(candidates, key=lambda index: _deviations(*pairs[index]))
        levels[joined : joined + 2] = [levels[joined] + levels[joined + 1]]
    return levels


def _are_alike(one: Span, other: Span) -> bool:
    difference = abs(one.rate - other.rate)
    return difference <= _LEAST_DIFFERENCE * max(one.rate, other.rate) or _deviations(one, other) < _SIGNIFICANT


def _deviations(one: Span, other: Span) -> float:
    both = (one + other).rate
    if not both:
        return 0.0
    return float(abs(one.rate - other.rate) / (both / one.length_s + both / other.length_s) ** 0.5)
