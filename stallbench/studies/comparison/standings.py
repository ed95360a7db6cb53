"""Compares all variants in one subject: their spread, their difference from the reference, and their ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from stallbench.base.number_text import format_value
from stallbench.studies.comparison.ranking import rank
from stallbench.verdicts.baseline.compared_metric import ComparedMetric
from stallbench.verdicts.baseline.statistics import ByRound, Difference, Spread, adjust, find_difference, find_spread

NEGLIGIBLE_SHARE = 0.01
"""A difference below this share of the reference's median is no cost: it may be statistically significant, but it is negligible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One variant in one subject."""

    values: ByRound
    spread: Spread | None
    """None if no run of the variant has a value."""
    difference: Difference | None
    """From the reference; none for the reference itself, and without a common round."""
    own_difference: Difference | None
    """From the variant's own reference: the one whose problem it is meant against; the reference of all, if it has none of its own."""
    better: bool | None
    """Whether it is better than the reference, if the difference is significant; else none."""
    rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All variants in one subject."""

    subject: ComparedMetric
    standings: Mapping[str, Standing]
    """By variant, the reference first."""
    references: Mapping[str, str]
    """By variant, its own reference."""
    pairs: Mapping[frozenset[str], Difference | None]
    """The difference between two variants that are not the reference, adjusted for all such pairs; only of the ranked subject."""

    @property
    def by_rank(self) -> list[str]:
        """Names of the variants, the best first; those without a value last."""
        return sorted(self.standings, key=lambda name: self.standings[name].rank or len(self.standings) + 1)

    @property
    def medians(self) -> dict[str, float]:
        """Median of each variant that has a value."""
        return {name: standing.spread.median for name, standing in self.standings.items() if standing.spread}

    @property
    def comparisons(self) -> int:
        """How many differences from the reference have a p-value."""
        return sum(map(self.has_p, self.standings))

    def has_p(self, name: str) -> bool:
        """Whether the difference of a variant from the reference has a p-value."""
        return _has_p(self.standings[name].difference)

    def has_own_p(self, name: str) -> bool:
        """Whether the difference of a variant from its own reference has a p-value."""
        return _has_p(self.standings[name].own_difference)

    def is_costlier(self, name: str) -> bool:
        """Whether a variant is worse than its own reference, and on average by `NEGLIGIBLE_SHARE` or more.

        The variant's own confidence interval decides, without the adjustment: the adjustment must not hide a cost.
        """
        difference = self.standings[name].own_difference
        if difference is None or not difference.is_significant_alone or is_better(self.subject, difference):
            return False
        return abs(difference.mean) >= NEGLIGIBLE_SHARE * abs(self.medians[self.references[name]])

    def differ(self, one: str, other: str) -> bool | None:
        """Whether two variants differ significantly in the ranked subject; none if there are too few rounds to decide."""
        reference = next(iter(self.standings))
        if reference in (one, other):
            difference = self.standings[other if one == reference else one].difference
        else:
            difference = self.pairs[frozenset((one, other))]
        return difference.is_significant if difference else None

    def format_median(self, name: str) -> str:
        """Return the median of a variant with what it is relative to."""
        spread = self.standings[name].spread
        unit = f" times {self.subject.relative_to}" if self.subject.relative_to else ""
        return f"{format_value(spread.median)}{unit}" if spread else "unknown"


def is_better(subject: ComparedMetric, difference: Difference) -> bool:
    """Whether ``difference`` is in the direction that is better for ``subject``."""
    return (difference.mean > 0) == (subject.better == "higher")


def compare(
    values: Mapping[ComparedMetric, Mapping[str, ByRound]],
    judged_by: Mapping[str, ComparedMetric],
    references: Mapping[str, str],
    *,
    seed: int,
) -> tuple[Compared, ...]:
    """Compare the variants, the first of which is the reference of all, in the values of each subject. ``seed``: of the bootstrap.

    ``judged_by``: by variant, the subject that decides whether it helps. ``references``: by variant, its own reference. The differences
    form two families, each adjusted by itself: of each variant, the one from its own reference in the subject that it is judged by; and all
    other differences from the reference of all. The other differences from an own reference are only looked at for costs, without an adjustment.
    """
    names = list(judged_by)
    first, *others = names
    differences = {
        (subject, name, reference): find_difference(by_variant[name], by_variant[reference], seed=seed)
        for subject, by_variant in values.items()
        for name in others
        for reference in dict.fromkeys((first, references[name]))
    }
    deciding = {(judged_by[name], name, references[name]) for name in others}
    differences |= adjust({key: each for key, each in differences.items() if key in deciding})
    differences |= adjust({key: each for key, each in differences.items() if key not in deciding and key[2] == first})
    return tuple(
        _compare_in(
            subject,
            by_variant,
            {name: differences.get((subject, name, first)) for name in names},
            {name: differences.get((subject, name, references[name])) for name in names},
            references,
            seed,
        )
        for subject, by_variant in values.items()
    )


def _has_p(difference: Difference | None) -> bool:
    return difference is not None and difference.p is not None


def _compare_in(
    subject: ComparedMetric,
    values: Mapping[str, ByRound],
    differences: Mapping[str, Difference | None],
    own_differences: Mapping[str, Difference | None],
    references: Mapping[str, str],
    seed: int,
) -> Compared:
    spreads = {name: find_spread(values[name]) for name in differences}
    ranks = rank({name: spread.median for name, spread in spreads.items() if spread}, subject.better)
    standings = {
        name: Standing(
            values=values[name],
            spread=spreads[name],
            difference=difference,
            own_difference=own_differences[name],
            better=is_better(subject, difference) if difference and difference.is_significant else None,
            rank=ranks.get(name),
        )
        for name, difference in differences.items()
    }
    pairs = combinations(list(differences)[1:], 2) if subject.role == "ranked" else ()
    of_pairs = {frozenset(pair): find_difference(values[pair[0]], values[pair[1]], seed=seed) for pair in pairs}
    return Compared(subject=subject, standings=standings, references=references, pairs=adjust(of_pairs))
