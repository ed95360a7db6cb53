"""Computes how much a figure varies from round to round, and whether two variants differ significantly in it.

Runs are compared in pairs: each run with the reference's run of the same round, so that influences on both cancel out. The confidence interval
of the mean difference is, at each end, the wider of two: that of `scipy.stats.bootstrap`, and Student's t of the same differences. The
bootstrap alone is too narrow with few rounds, because it cannot leave the range of the measured values. It calls one in four pairs of equal
variants different after three rounds, and one in ten after ten; it should be one in twenty (docs/compare.md has the figures). The p-value is
also the greater of the two.

A page shows many differences at once, so `adjust` corrects their p-values with Holm's method: if no variant differs in anything, the
chance that any of the differences that are adjusted together is called significant is at most 5 %.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

CONFIDENCE_LEVEL = 0.95
"""Of every confidence interval that the bench computes, in comparisons, soaks, forecasts and reports."""
FEWEST_ROUNDS = 3
_RESAMPLES = 9999

Key = TypeVar("Key", bound=Hashable)

Values = np.ndarray[Any, np.dtype[np.float64]]

ByRound = Mapping[int, float]
"""A value for each round in which there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Where the values of some rounds lie, in the metric's unit."""

    rounds: int
    median: float
    low: float
    """The smallest value; not a bound of a confidence interval."""
    high: float
    """The greatest value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedEffect:
    """An effect, and whether a test finds that it differs from zero."""

    low: float | None
    """Bounds of the confidence interval at `CONFIDENCE_LEVEL`, of this effect alone; none with too few values for a test."""
    high: float | None
    p: float | None
    """Two-sided p-value of this effect alone; none without a confidence interval."""
    adjusted_p: float | None
    """The p-value adjusted for all effects that are examined together; equal to ``p`` until it is adjusted."""

    @property
    def is_significant(self) -> bool | None:
        """Whether it differs significantly from zero after the adjustment; none if there are too few values to decide."""
        alone = self.is_significant_alone
        return None if alone is None or self.adjusted_p is None else alone and self.adjusted_p < 1 - CONFIDENCE_LEVEL

    @property
    def is_significant_alone(self) -> bool | None:
        """Whether it would differ significantly if no other were examined; none if there are too few values to decide."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(TestedEffect):
    """By how much a variant differs from another, over the rounds in which both have a value; in the metric's unit."""

    rounds: int
    mean: float


def find_spread(values: ByRound) -> Spread | None:
    """Return the spread of ``values``, none if there are none."""
    if not values:
        return None
    return Spread(
        rounds=len(values),
        median=statistics.median(values.values()),
        low=min(values.values()),
        high=max(values.values()),
    )


def find_difference(values: ByRound, reference: ByRound, *, seed: int) -> Difference | None:
    """Return ``values`` minus ``reference``, paired by round; none if they have no round in common.

    ``seed``: of the bootstrap, so that a report that is made again has the same figures.
    """
    differences = [values[round_] - reference[round_] for round_ in sorted(values.keys() & reference.keys())]
    return find_mean(differences, seed=seed) if differences else None


def find_unpaired_difference(values: Sequence[float], reference: Sequence[float], *, seed: int) -> Difference:
    """Return the mean of ``values`` minus that of ``reference``; of runs at different times, which are no pairs. Both have one value or more.

    There is no confidence interval if ``reference`` has fewer values than `FEWEST_ROUNDS`: then it is not known how much they vary. If
    ``values`` has fewer, its variance is taken to be that of both together (Student's t), and there is no bootstrap, which would see no variation
    in one value. Otherwise the variances may differ (Welch's t), and the interval is the wider of that and of the bootstrap's.
    """
    mean = statistics.fmean(values) - statistics.fmean(reference)
    rounds = min(len(values), len(reference))
    if len(reference) < FEWEST_ROUNDS:
        return Difference(rounds=rounds, mean=mean, low=None, high=None, p=None, adjusted_p=None)
    low, high, p = _test_unpaired(values, reference, mean, seed)
    return Difference(rounds=rounds, mean=mean, low=low, high=high, p=p, adjusted_p=p)


def find_mean(differences: Sequence[float], *, seed: int) -> Difference:
    """Return the mean of one or more ``differences``, its confidence interval and its p-value."""
    mean = statistics.fmean(differences)
    if len(differences) < FEWEST_ROUNDS:
        return Difference(rounds=len(differences), mean=mean, low=None, high=None, p=None, adjusted_p=None)
    low, high, p = _test(differences, seed)
    return Difference(rounds=len(differences), mean=mean, low=low, high=high, p=p, adjusted_p=p)


def adjust(differences: Mapping[Key, Difference | None]) -> dict[Key, Difference | None]:
    """Return ``differences`` with p-values adjusted for all of them that have one. See `adjust_with_holm`."""
    adjusted = adjust_with_holm({key: each.p for key, each in differences.items() if each is not None and each.p is not None})
    return {
        key: replace(each, adjusted_p=adjusted[key]) if each is not None and key in adjusted else each
        for key, each in differences.items()
    }


def adjust_with_holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Return the p-values adjusted with Holm's step-down method (Holm 1979), each at most 1.

    The smallest is multiplied by the number of p-values, the next by one less, and so on; none becomes smaller than one before it.
    """
    adjusted: dict[Key, float] = {}
    greatest = 0.0
    for index, (key, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        greatest = max(greatest, min(1.0, p * (len(p_values) - index)))
        adjusted[key] = greatest
    return adjusted


def _test(differences: Sequence[float], seed: int) -> tuple[float, float, float]:
    """Return the bounds of the confidence interval of the mean, and the p-value of a mean of zero."""
    from scipy import stats  # half a second of a processor, which only comparisons need

    sample = np.asarray(differences, dtype=float)
    error = float(stats.sem(sample))
    mean = float(sample.mean())
    if error == 0:  # all differences are equal: neither method can say more than that
        return mean, mean, 1.0 if mean == 0 else 0.0
    student = stats.t.interval(CONFIDENCE_LEVEL, len(sample) - 1, loc=mean, scale=error)
    bootstrap = stats.bootstrap(
        (sample,),
        np.mean,
        confidence_level=CONFIDENCE_LEVEL,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    interval, means = bootstrap.confidence_interval, bootstrap.bootstrap_distribution
    low, high = min(float(student[0]), float(interval.low)), max(float(student[1]), float(interval.high))
    p_of_student = 2 * float(stats.t.sf(abs(mean) / error, len(sample) - 1))
    p_of_bootstrap = 2 * min(float((means <= 0).mean()), float((means >= 0).mean()))
    return low, high, min(1.0, max(p_of_student, p_of_bootstrap))


def _test_unpaired(values: Sequence[float], reference: Sequence[float], mean: float, seed: int) -> tuple[float, float, float]:
    """Return the bounds of the confidence interval of the difference of two means, and the p-value of a difference of zero."""
    from scipy import stats

    one, other = np.asarray(values, dtype=float), np.asarray(reference, dtype=float)
    is_welch = len(one) >= FEWEST_ROUNDS
    error, freedom = _find_error_of_welch(one, other) if is_welch else _find_error_of_student(one, other)
    if error == 0:  # all values of each side are equal: neither method can say more than that
        return mean, mean, 1.0 if mean == 0 else 0.0
    half = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, freedom))
    if not is_welch:
        return mean - half, mean + half, p
    bootstrap = stats.bootstrap(
        (one, other),
        lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
        confidence_level=CONFIDENCE_LEVEL,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    interval, means = bootstrap.confidence_interval, bootstrap.bootstrap_distribution
    p_of_bootstrap = 2 * min(float((means <= 0).mean()), float((means >= 0).mean()))
    return min(mean - half, float(interval.low)), max(mean + half, float(interval.high)), min(1.0, max(p, p_of_bootstrap))


def _find_error_of_welch(one: Values, other: Values) -> tuple[float, float]:
    """Return the standard error of the difference of two means, and its degrees of freedom; the variances may differ."""
    parts = [float(each.var(ddof=1)) / len(each) for each in (one, other)]
    total = sum(parts)
    if total == 0:
        return 0.0, 1.0
    return total**0.5, total**2 / sum(part**2 / (len(each) - 1) for part, each in zip(parts, (one, other), strict=True))


def _find_error_of_student(one: Values, other: Values) -> tuple[float, float]:
    """Return the same for two samples of the same variance, one of which may have a single value."""
    freedom = len(one) + len(other) - 2
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in (one, other))
    return (squares / freedom * (1 / len(one) + 1 / len(other))) ** 0.5, float(freedom)
