"""How much a figure varies from round to round, and whether two variants really differ in it.

Runs are compared in pairs, each with the reference's run of the same round, so that what both of them met falls out. The interval of the
mean difference is, at each end, the wider of two: `scipy.stats.bootstrap`'s, and Student's t of the same differences. The bootstrap alone
would promise too much when rounds are few: it cannot leave the range of what was seen, and of pairs of equal variants it calls one in four
different after three rounds, one in ten after ten, where it says one in twenty (docs/compare.md has the figures).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95
FEWEST_ROUNDS = 3
_RESAMPLES = 9999

ByRound = Mapping[int, float]
"""A value for each round in which there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Where the values of some rounds lie, in the metric's unit."""

    rounds: int
    median: float
    low: float
    """The smallest; not a bound of an interval."""
    high: float
    """The greatest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """By how much a variant differs from another, over the rounds in which both have a value; in the metric's unit."""

    rounds: int
    mean: float
    low: float | None
    """Bounds of the interval at `LEVEL`; none with fewer rounds than `FEWEST_ROUNDS`."""
    high: float | None

    @property
    def is_significant(self) -> bool | None:
        """Whether the interval leaves out zero; none if there are not enough rounds to say."""
        return leaves_out_zero(self.low, self.high)


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
    """Return ``values`` less ``reference``, paired by round; none if they have no round in common.

    ``seed``: of the bootstrap, so that a report that is made again has the same figures.
    """
    differences = [values[round_] - reference[round_] for round_ in sorted(values.keys() & reference.keys())]
    return find_mean(differences, seed=seed) if differences else None


def find_mean(differences: Sequence[float], *, seed: int) -> Difference:
    """Return the mean of one or more ``differences`` and its interval."""
    enough = len(differences) >= FEWEST_ROUNDS
    low, high = _find_interval(differences, seed) if enough else (None, None)
    return Difference(rounds=len(differences), mean=statistics.fmean(differences), low=low, high=high)


def _find_interval(differences: Sequence[float], seed: int) -> tuple[float, float]:
    sample = np.asarray(differences, dtype=float)
    error = float(stats.sem(sample))
    mean = float(sample.mean())
    if error == 0:  # all the same: neither method can say more than that
        return mean, mean
    student = stats.t.interval(LEVEL, len(sample) - 1, loc=mean, scale=error)
    drawn = stats.bootstrap(
        (sample,),
        np.mean,
        confidence_level=LEVEL,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return min(float(student[0]), float(drawn.low)), max(float(student[1]), float(drawn.high))


def leaves_out_zero(low: float | None, high: float | None) -> bool | None:
    """Whether the interval does; none if there is no interval, for want of data."""
    if low is None or high is None:
        return None
    return low > 0 or high < 0
