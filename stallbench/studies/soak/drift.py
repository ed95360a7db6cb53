"""Computes whether a figure drifts over the cycles, by how much per hour, and how certain that is.

The slope is Theil and Sen's: the median of the slopes between all pairs of cycles. A cycle in which the machine was busy with other work
hardly changes it; it would tilt a least-squares line. Only cycles of the same segment are paired: those on the same servers and of the same
process. So a restart, after which a figure begins at another level, does not count as drift.

Memory and table sizes resemble those of the previous cycle. Sen's own confidence interval, which `scipy.stats.theilslopes` returns, treats each cycle as
independent and would be too narrow. So the variance of Kendall's S, from which it follows, is increased by the first-order
autocorrelation of the residuals (Hamed and Rao 1998), and Student's quantile replaces the normal one, with as many degrees of freedom as
independent cycles, minus two. A bootstrap of blocks is too narrow as well; docs/soak.md has the figures.

A soak has dozens of figures, so their p-values are adjusted with Holm's method, as in comparisons.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from stallbench.studies.soak.record import CycleRun, SoakRecord
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL, TestedEffect, adjust_with_holm

FEWEST_CYCLES = 8
"""For a confidence interval; with fewer, chance alone often puts all of them in order."""
_MOST_CYCLES = 240
"""With more, neighbouring cycles are merged by their median, because the number of pairs grows with the square."""
_STRONGEST = 0.95
_HOUR_S = 3600.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(TestedEffect):
    """How a figure changes, in its unit per hour."""

    cycles: int
    segments: int
    """How many segments of two or more cycles it has; each restart begins a new one."""
    level: float
    """The median of all cycles."""
    slope: float

    def as_json(self) -> dict[str, object]:
        """Return it for the record."""
        return {**asdict(self), "is_significant": self.is_significant}


def find_drifts(record: SoakRecord) -> Mapping[str, Drift | None]:
    """Return the drift of each figure that two or more cycles have, by name; none if its subject was another one in each cycle.

    The p-values are adjusted for all of them.
    """
    begins_h = dict(zip((cycle.number for cycle in record.completed), begin_hours(record), strict=True))
    names = dict.fromkeys(name for cycle in record.completed for name in cycle.figures)
    drifts: dict[str, Drift | None] = {}
    for name in names:
        cycles = [cycle for cycle in record.completed if name in cycle.figures]
        if len(cycles) > 1:
            drifts[name] = find_drift(
                [begins_h[cycle.number] for cycle in cycles],
                [cycle.figures[name].value for cycle in cycles],
                [_segment_of(cycle, name) for cycle in cycles],
            )
    return adjust_drifts(drifts)


def begin_hours(record: SoakRecord) -> list[float]:
    """Return when each completed cycle began, in hours since the first one; the time in which the bench did not run is left out."""
    hours, spent_s = [], 0.0
    for cycle in record.completed:
        hours.append(spent_s / _HOUR_S)
        spent_s += cycle.spent_s
    return hours


def _segment_of(cycle: CycleRun, name: str) -> tuple[int, str]:
    return cycle.server_set, cycle.figures[name].subject


def adjust_drifts(drifts: Mapping[str, Drift | None]) -> dict[str, Drift | None]:
    """Return ``drifts`` with p-values adjusted for all of them that have one."""
    adjusted = adjust_with_holm({name: drift.p for name, drift in drifts.items() if drift is not None and drift.p is not None})
    return {
        name: replace(drift, adjusted_p=adjusted[name]) if drift is not None and name in adjusted else drift
        for name, drift in drifts.items()
    }


def find_drift(hours: Sequence[float], values: Sequence[float], segments: Sequence[Hashable]) -> Drift | None:
    """Return the drift of ``values``, measured at ``hours``; none if no two cycles are of the same segment.

    ``segments``: the segment of each value.
    """
    pieces = list(_split(hours, values, segments))
    if not pieces:
        return None
    slope = _find_slope(pieces)
    cycles = sum(segments.count(segment) > 1 for segment in segments)
    low, high, p = _test(pieces, slope) if cycles >= FEWEST_CYCLES else (None, None, None)
    return Drift(
        cycles=cycles,
        segments=len(pieces),
        level=float(np.median(np.asarray(values))),
        slope=slope,
        low=low,
        high=high,
        p=p,
        adjusted_p=p,
    )


def _split(hours: Sequence[float], values: Sequence[float], segments: Sequence[Hashable]) -> Iterator[tuple[Floats, Floats]]:
    """Yield the times and values of each segment with two or more cycles; neighbours are merged if there are too many cycles."""
    together = -(-len(values) // _MOST_CYCLES)
    for segment in dict.fromkeys(segments):
        rows = [(t, value) for t, value, each in zip(hours, values, segments, strict=True) if each == segment]
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


def _test(pieces: Sequence[tuple[Floats, Floats]], slope: float) -> tuple[float, float, float]:
    """Return the bounds of Sen's widened confidence interval and the p-value of Kendall's S, which is summed over the pieces (Hirsch and Slack 1984)."""
    left = [_without(t, y, slope) for t, y in pieces]
    if not any(residuals.any() for residuals in left):
        return slope, slope, 1.0 if slope == 0 else 0.0
    counts = [len(t) for t, _ in pieces]
    inflation = _inflate(sum(counts), _first_autocorrelation(left))
    variance = inflation * sum(n * (n - 1) * (2 * n + 5) / 18 for n in counts)
    freedom = max(2.0, sum(counts) / inflation - 2)
    width = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom)) * variance**0.5
    slopes = np.sort(_slopes(pieces))
    low = max(0, round((len(slopes) - width) / 2))
    high = min(len(slopes) - 1, round((len(slopes) + width) / 2) - 1)
    s = abs(float(np.sign(slopes).sum()))
    return float(slopes[low]), float(slopes[high]), 2 * float(stats.t.sf(s / variance**0.5, freedom))


def _without(t: Floats, y: Floats, slope: float) -> Floats:
    """Return the residuals of a piece: without its slope and its level."""
    left: Floats = y - slope * t
    residuals: Floats = left - np.median(left)
    return residuals


def _first_autocorrelation(left: Sequence[Floats]) -> float:
    """Return the autocorrelation of neighbouring cycles, 0 to `_STRONGEST`, corrected because a fitted line makes it look smaller."""
    n = sum(len(residuals) for residuals in left)
    product = sum(float((residuals[1:] * residuals[:-1]).sum()) for residuals in left)
    square = sum(float((residuals**2).sum()) for residuals in left)
    return min(_STRONGEST, max(0.0, (n * product / square + 2) / (n - 4)))


def _inflate(n: int, autocorrelation: float) -> float:
    """Return how many autocorrelated cycles carry as much information as one independent cycle."""
    lags = np.arange(1, n)
    return float(1 + 2 * ((1 - lags / n) * autocorrelation**lags).sum())
