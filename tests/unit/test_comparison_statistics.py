"""Spreads, paired differences, and intervals that promise no more than they keep."""

from __future__ import annotations

import random

import pytest

from stallbench.comparison.statistics import FEWEST_ROUNDS, find_difference, find_mean, find_spread


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
def test_too_few_rounds_have_no_interval_and_nothing_is_said_to_be_real(rounds: int) -> None:
    difference = find_mean([100.0] * rounds, seed=1)
    assert (difference.low, difference.high, difference.is_significant) == (None, None, None)
    assert difference.mean == 100


def test_a_difference_that_is_always_there_is_real_and_one_of_both_signs_is_not() -> None:
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


@pytest.mark.parametrize("rounds", [3, 5, 10])
def test_equal_variants_are_told_apart_no_more_often_than_stated(rounds: int) -> None:
    """The bootstrap alone would do so in a quarter of the cases after three rounds."""
    chance = random.Random(rounds)
    trials = 300
    wrong = sum(bool(find_mean([chance.gauss(0, 1) for _ in range(rounds)], seed=n).is_significant) for n in range(trials))
    assert wrong / trials < 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5
