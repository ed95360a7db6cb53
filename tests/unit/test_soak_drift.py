"""Known slopes are found, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from stallbench.studies.soak.drift import FEWEST_CYCLES, adjust_drifts, find_drift

HOURS = [n / 40 for n in range(40)]
ONE_SEGMENT = [0] * 40


def noise(seed: int, autocorrelation: float = 0.0, n: int = 40) -> list[float]:
    """Normal noise of variance 1 that resembles its neighbours by so much."""
    random = np.random.default_rng(seed)
    values = [float(random.standard_normal())]
    for _ in range(n - 1):
        values.append(autocorrelation * values[-1] + (1 - autocorrelation**2) ** 0.5 * float(random.standard_normal()))
    return values


def test_a_known_slope_is_found_within_its_interval() -> None:
    values = [100 + 8 * t + 0.5 * e for t, e in zip(HOURS, noise(1), strict=True)]
    drift = find_drift(HOURS, values, ONE_SEGMENT)
    assert drift is not None
    assert drift.low is not None
    assert drift.high is not None
    assert drift.low < 8 < drift.high
    assert drift.slope == pytest.approx(8, abs=0.8)
    assert drift.is_significant
    assert drift.slope == pytest.approx(stats.theilslopes(values, HOURS).slope)


def test_one_cycle_in_which_the_machine_was_busy_is_no_drift() -> None:
    values = [*noise(2)[:-1], 500.0]
    drift = find_drift(HOURS, values, ONE_SEGMENT)
    assert drift is not None
    assert drift.is_significant is False
    assert stats.linregress(HOURS, values).slope > 20


def test_the_interval_is_never_narrower_than_that_of_scipy() -> None:
    for seed in range(5):
        values = noise(seed, 0.5)
        drift = find_drift(HOURS, values, ONE_SEGMENT)
        of_scipy = stats.theilslopes(values, HOURS)
        assert drift is not None
        assert drift.low is not None
        assert drift.high is not None
        assert drift.low <= of_scipy.low_slope + 1e-9
        assert drift.high >= of_scipy.high_slope - 1e-9


@pytest.mark.parametrize("autocorrelation", [0.0, 0.3, 0.6])
def test_a_figure_that_does_not_drift_is_rarely_called_significant(autocorrelation: float) -> None:
    called = 0
    for seed in range(60):
        drift = find_drift(HOURS, noise(seed, autocorrelation), ONE_SEGMENT)
        assert drift is not None
        called += bool(drift.is_significant)
    assert called <= 8  # docs/soak.md has the rates of more series


def test_a_restart_is_a_break_and_no_drift() -> None:
    segments = [0] * 20 + [1] * 20
    values = [(50 if segment == 0 else 10) + 3 * t + 0.05 * e for t, segment, e in zip(HOURS, segments, noise(3), strict=True)]
    drift = find_drift(HOURS, values, segments)
    assert drift is not None
    assert (drift.segments, drift.cycles) == (2, 40)
    assert drift.slope == pytest.approx(3, abs=0.2)
    as_one_segment = find_drift(HOURS, values, ONE_SEGMENT)
    assert as_one_segment is not None
    assert as_one_segment.slope < 0


def test_processes_that_are_new_in_each_cycle_have_no_drift() -> None:
    assert find_drift(HOURS, noise(4), list(range(40))) is None


def test_few_cycles_have_a_slope_and_no_interval() -> None:
    n = FEWEST_CYCLES - 1
    drift = find_drift(HOURS[:n], [float(t) for t in range(n)], [0] * n)
    assert drift is not None
    assert drift.slope == pytest.approx(40)
    assert (drift.low, drift.high, drift.is_significant) == (None, None, None)


def test_what_never_changes_does_not_drift() -> None:
    drift = find_drift(HOURS, [16384.0] * 40, ONE_SEGMENT)
    assert drift is not None
    assert (drift.slope, drift.low, drift.high, drift.is_significant) == (0, 0, 0, False)


def test_the_many_cycles_of_a_soak_of_days_are_merged() -> None:
    n = 1000
    hours = [t / 40 for t in range(n)]
    values = [5 + 0.2 * t + 0.1 * e for t, e in zip(hours, noise(5, n=n), strict=True)]
    drift = find_drift(hours, values, [0] * n)
    assert drift is not None
    assert drift.cycles == n
    assert drift.slope == pytest.approx(0.2, abs=0.01)
    assert drift.is_significant


def test_the_p_value_is_that_of_kendall_s_s() -> None:
    """Without autocorrelation: S of twelve increasing cycles is 66, its variance 212.67, with 10 degrees of freedom."""
    values = [float(t) + 0.3 * (-1) ** t for t in range(12)]
    drift = find_drift([float(t) for t in range(12)], values, [0] * 12)
    assert drift is not None
    assert drift.p == pytest.approx(2 * stats.t.sf(66 / 212.667**0.5, 10), rel=1e-3)


def test_the_p_value_agrees_with_the_interval() -> None:
    for seed in range(40):
        values = [0.6 * t + e for t, e in zip(HOURS, noise(seed, 0.3), strict=True)]
        drift = find_drift(HOURS, values, ONE_SEGMENT)
        assert drift is not None
        assert drift.p is not None
        assert (drift.p < 0.05) == drift.is_significant_alone or drift.p == pytest.approx(0.05, abs=0.01)


def test_a_drift_is_significant_only_after_the_adjustment_for_all_figures() -> None:
    """Twelve increasing cycles have a p-value of 0.001: enough among twenty figures, not among a hundred."""
    hours, segment = [float(t) for t in range(12)], [0] * 12
    rising = find_drift(hours, [t + 0.3 * (-1) ** t for t in range(12)], segment)
    still = find_drift(hours, [1.0, 2.0] * 6, segment)
    assert rising is not None
    assert rising.is_significant
    for figures, is_significant in ((20, True), (100, False)):
        adjusted = adjust_drifts({"rising": rising, **{str(n): still for n in range(figures - 1)}})["rising"]
        assert adjusted is not None
        assert adjusted.p is not None
        assert adjusted.adjusted_p == pytest.approx(figures * adjusted.p)
        assert adjusted.is_significant is is_significant
        assert adjusted.is_significant_alone
