"""Does a figure drift over the cycles, by how much an hour, and how sure is that?

The slope is Theil and Sen's: the median of the slopes between all pairs of cycles. One cycle in which the machine was busy with something
else moves it hardly at all, where it would tilt a line of least squares. Only cycles of the same line are paired: those of the same servers
and the same process. So a restart, after which everything begins at another level, is no drift.

The interval has to allow for cycles that resemble their neighbours, as memory and table sizes do: Sen's own, as `scipy.stats.theilslopes`
has it, takes each cycle for news. So the variance of Kendall's S, from which it is made, is increased by the autocorrelation of what is
left without the slope (Hamed and Rao 1998, of the first order), and the normal quantile is Student's, with as many degrees of freedom as
there are cycles that count, less two. The bootstrap of blocks was tried and promises more than it holds; docs/soak.md has the figures.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from stallbench.comparison.statistics import leaves_out_zero

LEVEL = 0.95
FEWEST_CYCLES = 8
"""For an interval; with fewer, chance alone puts them all in a row."""
_MOST_CYCLES = 240
"""More are put together by medians of neighbours: the pairs are as many as the square."""
_STRONGEST = 0.95

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How a figure changes, in its unit an hour."""

    cycles: int
    lines: int
    """Into how many pieces restarts break it, each of two cycles at least."""
    level: float
    """The median of all cycles."""
    slope: float
    low: float | None
    """Bounds of the interval at `LEVEL`; none with fewer cycles than `FEWEST_CYCLES`."""
    high: float | None

    @property
    def is_significant(self) -> bool | None:
        """Whether the interval leaves out zero; none if there are too few cycles to say."""
        return leaves_out_zero(self.low, self.high)

    def as_json(self) -> dict[str, Any]:
        """Return it for ``soak.json``."""
        return {**asdict(self), "is_real": self.is_significant}


def find_drift(hours: Sequence[float], values: Sequence[float], lines: Sequence[Hashable]) -> Drift | None:
    """Return the drift of ``values``, measured at ``hours``; none if no two cycles are of the same line.

    ``lines``: of each value, which line it is of.
    """
    pieces = list(_split(hours, values, lines))
    if not pieces:
        return None
    slope = _find_slope(pieces)
    cycles = sum(lines.count(line) > 1 for line in lines)
    low, high = _find_interval(pieces, slope) if cycles >= FEWEST_CYCLES else (None, None)
    return Drift(
        cycles=cycles,
        lines=len(pieces),
        level=float(np.median(np.asarray(values))),
        slope=slope,
        low=low,
        high=high,
    )


def _split(hours: Sequence[float], values: Sequence[float], lines: Sequence[Hashable]) -> Iterator[tuple[Floats, Floats]]:
    """Yield the times and values of each line with two cycles at least, put together where all together are too many."""
    together = -(-len(values) // _MOST_CYCLES)
    for line in dict.fromkeys(lines):
        rows = [(t, value) for t, value, each in zip(hours, values, lines, strict=True) if each == line]
        rows = [tuple(np.median(rows[n : n + together], axis=0)) for n in range(0, len(rows), together)]
        if len(rows) > 1:
            t, y = np.asarray(rows, dtype=float).T
            yield t, y


def _find_slope(pieces: Sequence[tuple[Floats, Floats]]) -> float:
    return float(np.median(_slopes(pieces)))


def _slopes(pieces: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Return the slopes between all pairs of the same piece."""
    found = []
    for t, y in pieces:
        first, second = np.triu_indices(len(t), 1)
        found.append((y[second] - y[first]) / (t[second] - t[first]))
    return np.concatenate(found)


def _find_interval(pieces: Sequence[tuple[Floats, Floats]], slope: float) -> tuple[float, float]:
    """Return Sen's interval, widened; S is summed over the pieces, as Hirsch and Slack sum it over seasons."""
    left = [_without(t, y, slope) for t, y in pieces]
    if not any(residuals.any() for residuals in left):
        return slope, slope
    counts = [len(t) for t, _ in pieces]
    inflation = _inflate(sum(counts), _first_autocorrelation(left))
    variance = inflation * sum(n * (n - 1) * (2 * n + 5) / 18 for n in counts)
    freedom = max(2.0, sum(counts) / inflation - 2)
    width = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * variance**0.5
    slopes = np.sort(_slopes(pieces))
    low = max(0, round((len(slopes) - width) / 2))
    high = min(len(slopes) - 1, round((len(slopes) + width) / 2) - 1)
    return float(slopes[low]), float(slopes[high])


def _without(t: Floats, y: Floats, slope: float) -> Floats:
    """Return what is left of a piece without its slope and its level."""
    left: Floats = y - slope * t
    residuals: Floats = left - np.median(left)
    return residuals


def _first_autocorrelation(left: Sequence[Floats]) -> float:
    """Return how much a cycle resembles the next, 0 to `_STRONGEST`; corrected, for a fitted line makes it look less than it is."""
    n = sum(len(residuals) for residuals in left)
    product = sum(float((residuals[1:] * residuals[:-1]).sum()) for residuals in left)
    square = sum(float((residuals**2).sum()) for residuals in left)
    return min(_STRONGEST, max(0.0, (n * product / square + 2) / (n - 4)))


def _inflate(n: int, autocorrelation: float) -> float:
    """Return for how many cycles, each like its neighbours, one stands."""
    lags = np.arange(1, n)
    return float(1 + 2 * ((1 - lags / n) * autocorrelation**lags).sum())
