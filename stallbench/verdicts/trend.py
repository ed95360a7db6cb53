"""Whether one figure rises with another: rank correlation, and the median of all slopes between two points.

Both are what `scipy.stats` computes. Importing that takes half a second of a processor, at the end of every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """A slope and its confidence interval."""

    value: float
    low: float
    high: float


def correlate_ranks(x: Values, y: Values) -> float:
    """Return Spearman's coefficient: Pearson's, of the ranks. Equal values have their mean rank."""
    return float(np.corrcoef(pd.Series(x).rank(), pd.Series(y).rank())[0, 1])


def find_theil_slope(x: Values, y: Values, confidence: float) -> Slope:
    """Return Theil's slope of ``y`` over ``x`` with Sen's confidence interval (1968). ``x`` must have two different values or more.

    The variance of Kendall's statistic, from which Sen's interval follows, is that with ties in both.
    """
    rises, runs = y[:, None] - y, x[:, None] - x
    slopes = np.sort(rises[runs > 0] / runs[runs > 0])
    points = len(x)
    spread = points * (points - 1) * (2 * points + 5) - _count_ties(x) - _count_ties(y)
    width = NormalDist().inv_cdf((1 + confidence) / 2) * (spread / 18) ** 0.5
    high = min(round((len(slopes) + width) / 2), len(slopes) - 1)
    low = max(round((len(slopes) - width) / 2) - 1, 0)
    return Slope(value=float(np.median(slopes)), low=float(slopes[low]), high=float(slopes[high]))


def _count_ties(values: Values) -> int:
    """Return by how much equal values lower eighteen times the variance."""
    _, counts = np.unique(values, return_counts=True)
    return int((counts * (counts - 1) * (2 * counts + 5)).sum())
