"""Ranks the variants, and compares the order with published figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from stallbench.measure_definition import Better

FEWEST_COMMON = 3
"""Two variants agree fully or not at all, so a coefficient would mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two variants whose order here is the reverse of the published one."""

    ahead: str
    """Which of the two is better here."""
    behind: str
    is_significant: bool | None
    """Whether they differ significantly here; none if there are too few rounds to decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How the order here agrees with a published one."""

    where: str
    ranks: Mapping[str, int]
    """Of the published figures of the variants that were compared."""
    common: tuple[str, ...]
    """The variants that have a figure both here and there."""
    spearman: float | None
    """-1 (the reverse order) to 1 (the same); none with fewer than `FEWEST_COMMON` in common, or if all figures of one side are equal."""
    kendall: float | None
    """The tau-b, likewise."""
    disagreements: tuple[Disagreement, ...]


def rank(figures: Mapping[str, float], better: Better) -> dict[str, int]:
    """Return the rank of each name, 1 for the best; equal figures share the better rank."""
    if not figures:
        return {}
    best_first = [-figure if better == "higher" else figure for figure in figures.values()]
    return {name: int(place) for name, place in zip(figures, stats.rankdata(best_first, method="min"), strict=True)}


def compare_with_published(
    ours: Mapping[str, float],
    published: Mapping[str, Mapping[str, float]],
    better: Better,
    differ: Callable[[str, str], bool | None],
) -> Iterator[Agreement]:
    """Compare ``ours``, by variant, with each published column.

    Variants in ``published`` that were not compared are left out. ``differ`` returns whether two variants differ significantly.
    """
    for where, column in published.items():
        theirs = {name: column[name] for name in ours if name in column}
        common = tuple(theirs)
        here, there = [ours[name] for name in common], list(theirs.values())
        spearman = kendall = None
        if len(common) >= FEWEST_COMMON and len(set(here)) > 1 and len(set(there)) > 1:
            spearman = float(stats.spearmanr(np.array(here), np.array(there)).statistic)
            kendall = float(stats.kendalltau(np.array(here), np.array(there)).statistic)
        yield Agreement(
            where=where,
            ranks=rank(theirs, better),
            common=common,
            spearman=spearman,
            kendall=kendall,
            disagreements=tuple(_find_disagreements(ours, theirs, better, differ)),
        )


def _find_disagreements(
    ours: Mapping[str, float], theirs: Mapping[str, float], better: Better, differ: Callable[[str, str], bool | None]
) -> Iterator[Disagreement]:
    """Yield the pairs of which one is better here and the other is better there; equal figures have no order."""
    sign = 1 if better == "higher" else -1
    for one, other in combinations(theirs, 2):
        here, there = sign * (ours[one] - ours[other]), sign * (theirs[one] - theirs[other])
        if here * there < 0:
            ahead, behind = (one, other) if here > 0 else (other, one)
            yield Disagreement(ahead=ahead, behind=behind, is_significant=differ(ahead, behind))
