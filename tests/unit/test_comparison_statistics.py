"""Spreads, paired differences, their intervals, and the adjustment for how many are examined."""

from __future__ import annotations

import random

import pytest

from stallbench.verdicts.baseline.statistics import (
    FEWEST_ROUNDS,
    adjust,
    adjust_with_holm,
    find_difference,
    find_mean,
    find_spread,
)

pytestmark = pytest.mark.slow


def test_a_spread_is_the_median_between_the_extremes() -> None:
    spread = find_spread({1: 5.0, 2: 1.0, 3: 2.0})
    assert spread is not None
    assert (spread.rounds, spread.low, spread.median, spread.high) == (3, 1, 2, 5)
    assert find_spread({}) is None


def test_differences_are_of_the_same_round() -> None:
    difference = find_difference({1: 11.0, 2: 22.0, 3: 33.0}, {1: 10.0, 2: 20.0, 3: 30.0}, seed=1)
    assert difference is not None
    assert difference.mean == pytest.approx(2)
    assert difference.rounds == 3


def test_a_round_that_one_of_both_lacks_does_not_count() -> None:
    difference = find_difference({1: 11.0, 3: 33.0}, {1: 10.0, 2: 20.0}, seed=1)
    assert difference is not None
    assert (difference.rounds, difference.mean) == (1, 1)
    assert find_difference({1: 1.0}, {2: 1.0}, seed=1) is None


@pytest.mark.parametrize("rounds", range(1, FEWEST_ROUNDS))
def test_too_few_rounds_have_no_interval_and_nothing_is_significant(rounds: int) -> None:
    difference = find_mean([100.0] * rounds, seed=1)
    assert (difference.low, difference.high, difference.is_significant) == (None, None, None)
    assert difference.mean == 100


def test_a_constant_difference_is_significant_and_one_of_both_signs_is_not() -> None:
    assert find_mean([-7.0, -7.2, -6.9], seed=1).is_significant is True
    assert find_mean([7.0, 7.2, 6.9], seed=1).is_significant is True
    assert find_mean([0.2, -0.1, 0.1], seed=1).is_significant is False


def test_equal_differences_are_an_interval_of_no_length() -> None:
    same = find_mean([2.0, 2.0, 2.0], seed=1)
    assert (same.low, same.high, same.is_significant) == (2, 2, True)
    assert find_mean([0.0, 0.0, 0.0], seed=1).is_significant is False


def test_the_interval_is_the_same_when_made_again() -> None:
    values = [1.0, 2.0, 4.0, 3.0, 9.0]
    assert find_mean(values, seed=3) == find_mean(values, seed=3)


def test_the_interval_is_at_least_as_wide_as_the_bootstrap_gives() -> None:
    lopsided = find_mean([1.0] * 11 + [30.0], seed=1)
    assert lopsided.low is not None and lopsided.high is not None
    assert lopsided.low <= lopsided.mean <= lopsided.high
    assert lopsided.high >= 8


@pytest.mark.parametrize("rounds", [3, *(pytest.param(more, marks=pytest.mark.long) for more in (5, 10))])
def test_equal_variants_differ_significantly_no_more_often_than_stated(rounds: int) -> None:
    """The bootstrap alone would do so in a quarter of the cases after three rounds."""
    chance = random.Random(rounds)
    trials = 300
    wrong = sum(bool(find_mean([chance.gauss(0, 1) for _ in range(rounds)], seed=n).is_significant) for n in range(trials))
    assert wrong / trials < 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def test_the_p_value_is_student_s_where_that_is_the_greater() -> None:
    """t = 4.2 / (0.4 / sqrt(3)) = 18.19 with 2 degrees of freedom."""
    assert find_mean([4.2, 3.8, 4.6], seed=1).p == pytest.approx(0.00301, abs=1e-5)


def test_the_p_value_agrees_with_the_interval() -> None:
    chance = random.Random(5)
    for rounds in (3, 5, 10, 20):
        for n in range(50):
            found = find_mean([chance.gauss(0.8, 1) for _ in range(rounds)], seed=n)
            assert found.p is not None
            assert (found.p < 0.05) == found.is_significant_alone or found.p == pytest.approx(0.05, abs=0.002)


def test_differences_that_are_all_equal_leave_no_doubt() -> None:
    assert find_mean([2.0, 2.0, 2.0], seed=1).p == 0
    assert find_mean([0.0, 0.0, 0.0], seed=1).p == 1


def test_holm_s_adjustment_of_known_p_values() -> None:
    """The same as R's ``p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")``: 0.03, 0.06, 0.06, 0.02."""
    adjusted = adjust_with_holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert adjust_with_holm({"a": 0.7, "b": 0.6}) == {"a": 1.0, "b": 1.0}
    assert adjust_with_holm({"alone": 0.04}) == {"alone": 0.04}
    assert adjust_with_holm({}) == {}


def test_only_differences_with_a_p_value_count() -> None:
    once, few = find_mean([4.2, 3.8, 4.6], seed=1), find_mean([1.0], seed=1)
    adjusted = adjust({"a": once, "b": once, "few": few, "none": None})
    assert once.p is not None and adjusted["a"] is not None
    assert adjusted["a"].adjusted_p == pytest.approx(2 * once.p)
    assert (adjusted["few"], adjusted["none"]) == (few, None)


def test_a_difference_that_is_significant_alone_need_not_be_so_among_others() -> None:
    found = find_mean([2.0, 3.0, 2.6], seed=1)
    others = {n: find_mean([0.2, -0.1, 0.1], seed=1) for n in range(5)}
    assert found.is_significant
    among_others = adjust({"found": found, **{str(n): each for n, each in others.items()}})["found"]
    assert among_others is not None
    assert among_others.is_significant is False
    assert among_others.is_significant_alone is True
    assert (among_others.low, among_others.high) == (found.low, found.high), "the interval is of one difference"


def test_among_twenty_equal_variants_it_is_rare_that_any_differs_significantly() -> None:
    """Without the adjustment, one in twenty would be called different: in two of three comparisons at least one."""
    chance = random.Random(3)
    wrong = 0
    trials = 40
    for _ in range(trials):
        adjusted = adjust({n: find_mean([chance.gauss(0, 1) for _ in range(5)], seed=n) for n in range(20)})
        wrong += any(each is not None and each.is_significant for each in adjusted.values())
    assert wrong / trials < 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5
