"""The slope and the rank correlation are those of `scipy.stats`, with and without equal values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from stallbench.verdicts.trend import correlate_ranks, find_theil_slope


@pytest.mark.parametrize("points", [2, 3, 10, 75])
@pytest.mark.parametrize("different", [2, 5, 1000], ids=lambda different: f"at most {different} different values")
@pytest.mark.parametrize("rise", [-2.0, 0.0, 0.3])
def test_both_agree_with_scipy(points: int, different: int, rise: float) -> None:
    random = np.random.default_rng(points * different)
    x = random.integers(different, size=points).astype(float)
    x[:2] = (0, 1)
    y = np.round(rise * x + random.integers(different, size=points), 1)
    y[:2] = (0, 1)
    slope = find_theil_slope(x, y, 0.95)
    theirs = stats.theilslopes(y, x, alpha=0.95)
    assert (slope.value, slope.low, slope.high) == pytest.approx(
        (theirs.slope, theirs.low_slope, theirs.high_slope), rel=1e-12, abs=1e-12
    )
    assert correlate_ranks(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, rel=1e-12, abs=1e-12)
