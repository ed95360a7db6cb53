"""Ranks, and how far they agree with published ones."""

from __future__ import annotations

import pytest

from stallbench.studies.comparison.formatting import describe_agreement
from stallbench.studies.comparison.ranking import Agreement, compare_with_published, rank

OURS = {"control": 90.0, "a": 120.0, "b": 110.0, "c": 100.0}


def compare(
    published: dict[str, float], better: str = "higher", ours: dict[str, float] | None = None, is_significant: bool | None = True
) -> Agreement:
    (agreement,) = compare_with_published(
        OURS if ours is None else ours,
        {"there": published},
        "higher" if better == "higher" else "lower",
        lambda one, other: is_significant,
    )
    return agreement


def test_the_best_is_first_and_equals_share_the_better_rank() -> None:
    assert rank({"a": 1.0, "b": 3.0, "c": 3.0, "d": 2.0}, "higher") == {"b": 1, "c": 1, "d": 3, "a": 4}
    assert rank({"a": 1.0, "b": 3.0, "c": 3.0, "d": 2.0}, "lower") == {"a": 1, "d": 2, "b": 3, "c": 3}
    assert rank({}, "lower") == {}


def test_the_same_order_agrees_whatever_the_unit() -> None:
    agreement = compare({"control": 9.0, "a": 12000.0, "b": 110.0, "c": 10.0})
    assert agreement.spearman == pytest.approx(1)
    assert agreement.kendall == pytest.approx(1)
    assert agreement.disagreements == ()
    assert agreement.ranks == {"a": 1, "b": 2, "c": 3, "control": 4}
    assert describe_agreement(agreement) == "there: Spearman 1.00, Kendall 1.00 over 4 variants; no pair is reversed."


def test_the_reverse_order_is_minus_one_and_every_pair_differs() -> None:
    agreement = compare({"control": 4.0, "a": 1.0, "b": 2.0, "c": 3.0})
    assert agreement.spearman == pytest.approx(-1)
    assert agreement.kendall == pytest.approx(-1)
    assert len(agreement.disagreements) == 6


def test_one_reversed_pair_is_named_with_ours_first() -> None:
    agreement = compare({"control": 1.0, "a": 3.0, "b": 4.0, "c": 2.0})
    assert agreement.spearman == pytest.approx(0.8)
    assert agreement.kendall == pytest.approx(4 / 6)
    assert [(pair.ahead, pair.behind) for pair in agreement.disagreements] == [("a", "b")]


def test_of_what_is_better_lower_the_lowest_is_ahead() -> None:
    agreement = compare({"a": 1.0, "b": 2.0, "control": 3.0}, "lower", {"a": 20.0, "b": 10.0, "control": 30.0})
    assert agreement.ranks == {"a": 1, "b": 2, "control": 3}
    assert [(pair.ahead, pair.behind) for pair in agreement.disagreements] == [("b", "a")]


@pytest.mark.parametrize(
    ("is_significant", "described"),
    [(True, "a before b."), (False, "a before b (no significant difference here)."), (None, "a before b (not enough rounds).")],
)
def test_a_reversed_pair_shows_whether_its_difference_is_significant(is_significant: bool | None, described: str) -> None:
    agreement = compare({"control": 1.0, "a": 3.0, "b": 4.0, "c": 2.0}, is_significant=is_significant)
    assert describe_agreement(agreement).endswith(f"reversed here: {described}")


def test_only_variants_that_both_have_count() -> None:
    agreement = compare({"a": 5.0, "b": 4.0, "elsewhere": 9.0, "c": 1.0})
    assert agreement.common == ("a", "b", "c")
    assert agreement.ranks == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("published", [{}, {"a": 1.0}, {"a": 1.0, "b": 2.0}])
def test_fewer_than_three_have_no_coefficient(published: dict[str, float]) -> None:
    agreement = compare(published)
    assert (agreement.spearman, agreement.kendall) == (None, None)
    assert "too few figures" in describe_agreement(agreement)


def test_figures_that_are_all_equal_have_no_order_to_agree_with() -> None:
    agreement = compare({"control": 1.0, "a": 1.0, "b": 1.0})
    assert (agreement.spearman, agreement.kendall) == (None, None)
    assert agreement.disagreements == ()
    assert describe_agreement(agreement) == "there: all equal; no pair is reversed."
