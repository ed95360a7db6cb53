"""All variants in one subject: their spread, their difference from the reference, and who is first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stallbench.comparison.ranking import rank
from stallbench.comparison.statistics import ByRound, Difference, Spread, find_difference, find_spread
from stallbench.comparison.subject import Subject
from stallbench.verdicts.expectations import format_value

LEAST_COST_SHARE = 0.01
"""What a cost must come to, as a share of the reference's median, to be told: less may be real, but nobody would decide by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One variant in one subject."""

    values: ByRound
    spread: Spread | None
    """None if no run of the variant has a value."""
    difference: Difference | None
    """From the reference; none for the reference itself, and without a common round."""
    better: bool | None
    """Whether it is better than the reference, if the difference is real; else none."""
    rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All variants in one subject."""

    subject: Subject
    standings: Mapping[str, Standing]
    """By variant, the reference first."""
    seed: int

    @property
    def by_rank(self) -> list[str]:
        """Names of the variants, the best first; those without a value last."""
        return sorted(self.standings, key=lambda name: self.standings[name].rank or len(self.standings) + 1)

    @property
    def medians(self) -> dict[str, float]:
        """Median of each variant that has a value."""
        return {name: standing.spread.median for name, standing in self.standings.items() if standing.spread}

    def is_dearer(self, name: str, reference: str) -> bool:
        """Whether a variant is really worse than the reference, and in the mean by `LEAST_COST_SHARE` of it or more: then it is a cost."""
        standing = self.standings[name]
        if standing.better is not False or standing.difference is None:
            return False
        return abs(standing.difference.mean) >= LEAST_COST_SHARE * abs(self.medians[reference])

    def differ(self, one: str, other: str) -> bool | None:
        """Whether two variants really differ; none if there are not enough rounds to say."""
        difference = find_difference(self.standings[one].values, self.standings[other].values, seed=self.seed)
        return difference.is_significant if difference else None

    def describe(self, name: str) -> str:
        """Return the median of a variant as text."""
        spread = self.standings[name].spread
        unit = f" times {self.subject.relative_to}" if self.subject.relative_to else ""
        return f"{format_value(spread.median)}{unit}" if spread else "unknown"


def compare(subject: Subject, values: Mapping[str, ByRound], names: Sequence[str], *, seed: int) -> Compared:
    """Compare ``names``, the first of which is the reference, in their ``values``. ``seed``: of the bootstrap."""
    spreads = {name: find_spread(values[name]) for name in names}
    ranks = rank({name: spread.median for name, spread in spreads.items() if spread}, subject.better)
    standings = {}
    for name in names:
        difference = find_difference(values[name], values[names[0]], seed=seed) if name != names[0] else None
        standings[name] = Standing(
            values=values[name],
            spread=spreads[name],
            difference=difference,
            better=(difference.mean > 0) == (subject.better == "higher") if difference and difference.is_significant else None,
            rank=ranks.get(name),
        )
    return Compared(subject=subject, standings=standings, seed=seed)
