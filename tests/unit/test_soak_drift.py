"""Does the drift find slopes that are known, and no others?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from stallbench.soak.drift import FEWEST_CYCLES, find_drift

HOURS = [n / 40 for n in range(40)]
ONE_LINE = [0] * 40


def noise(seed: int, autocorrelation: float = 0.0, n: int = 40) -> list[float]:
    """Normal noise of variance 1 that resembles its neighbours by so much."""
    random = np.random.default_rng(seed)
    values = [float(random.standard_normal())]
    for _ in range(n - 1):
        values.append(autocorrelation * values[-1] + (1 - autocorrelation**2) ** 0.5 * float(random.standard_normal()))
    return values


def test_a_known_slope_is_found_within_its_interval() -> None:
    values = [100 + 8 * t + 0.5 * e for t, e in zip(HOURS, noise(1), strict=True)]
    drift = find_drift(HOURS, values, ONE_LINE)
    assert drift is not None
    assert drift.low is not None
    assert drift.high is not None
    assert drift.low < 8 < drift.high
    assert drift.slope == pytest.approx(8, abs=0.8)
    assert drift.is_significant
    assert drift.slope == pytest.approx(stats.theilslopes(values, HOURS).slope)


def test_one_cycle_in_which_the_machine_was_busy_is_no_drift() -> None:
    values = [*noise(2)[:-1], 500.0]
    drift = find_drift(HOURS, values, ONE_LINE)
    assert drift is not None
    assert drift.is_significant is False
    assert stats.linregress(HOURS, values).slope > 20


def test_the_interval_is_never_narrower_than_that_of_scipy() -> None:
    for seed in range(5):
        values = noise(seed, 0.5)
        drift = find_drift(HOURS, values, ONE_LINE)
        of_scipy = stats.theilslopes(values, HOURS)
        assert drift is not None
        assert drift.low is not None
        assert drift.high is not None
        assert drift.low <= of_scipy.low_slope + 1e-9
        assert drift.high >= of_scipy.high_slope - 1e-9


@pytest.mark.parametrize("autocorrelation", [0.0, 0.3, 0.6])
def test_what_does_not_drift_is_seldom_called_a_drift(autocorrelation: float) -> None:
    called = 0
    for seed in range(60):
        drift = find_drift(HOURS, noise(seed, autocorrelation), ONE_LINE)
        assert drift is not None
        called += bool(drift.is_significant)
    assert called <= 8  # docs/soak.md has the rates of more series


def test_a_restart_is_a_break_and_no_drift() -> None:
    lines = [0] * 20 + [1] * 20
    values = [(50 if line == 0 else 10) + 3 * t + 0.05 * e for t, line, e in zip(HOURS, lines, noise(3), strict=True)]
    drift = find_drift(HOURS, values, lines)
    assert drift is not None
    assert (drift.lines, drift.cycles) == (2, 40)
    assert drift.slope == pytest.approx(3, abs=0.2)
    as_one_line = find_drift(HOURS, values, ONE_LINE)
    assert as_one_line is not None
    assert as_one_line.slope < 0


def test_processes_that_are_new_in_each_cycle_have_no_drift() -> None:
    assert find_drift(HOURS, noise(4), list(range(40))) is None


def test_few_cycles_have_a_slope_and_no_interval() -> None:
    n = FEWEST_CYCLES - 1
    drift = find_drift(HOURS[:n], [float(t) for t in range(n)], [0] * n)
    assert drift is not None
    assert drift.slope == pytest.approx(40)
    assert (drift.low, drift.high, drift.is_significant) == (None, None, None)


def test_what_never_changes_does_not_drift() -> None:
    drift = find_drift(HOURS, [16384.0] * 40, ONE_LINE)
    assert drift is not None
    assert (drift.slope, drift.low, drift.high, drift.is_significant) == (0, 0, 0, False)


def test_a_soak_of_days_is_put_together() -> None:
    n = 1000
    hours = [t / 40 for t in range(n)]
    values = [5 + 0.2 * t + 0.1 * e for t, e in zip(hours, noise(5, n=n), strict=True)]
    drift = find_drift(hours, values, [0] * n)
    assert drift is not None
    assert drift.cycles == n
    assert drift.slope == pytest.approx(0.2, abs=0.01)
    assert drift.is_significant
