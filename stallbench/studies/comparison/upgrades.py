"""Answers for a matrix whether an upgrade helps: the difference from each version to the next of the same engine, and from the first to the last."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from stallbench.base.number_text import format_value
from stallbench.studies.comparison.standings import Compared, is_better
from stallbench.studies.comparison.versions import read_version
from stallbench.verdicts.baseline.statistics import FEWEST_ROUNDS, Difference, adjust, find_difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """One upgrade, and the difference that it makes in the ranked metric."""

    before: str
    after: str
    difference: Difference | None
    """Of the runs of the same rounds; adjusted for all upgrades. None if no round has both."""
    share: float | None
    """The mean difference as a share of the mean before; none without a value."""
    better: bool | None
    """Whether it is better after, if the difference is significant; else none."""
    from_median: float | None
    to_median: float | None
    unmeasured: tuple[str, ...]
    """Those of the two versions on which a completed run has no value: its other rounds may be better than the one that is missing."""

    @property
    def title(self) -> str:
        """As a row has it."""
        return f"{read_version(self.before).title} to {read_version(self.after).version}"

    @property
    def change(self) -> str:
        """By how much the metric changes, in percent."""
        return "unknown" if self.share is None else f"{self.share:+.0%}".replace("-", "−")

    @property
    def answer(self) -> str:
        """Whether it helps."""
        if self.unmeasured:
            return "not measured in every run"
        if self.difference is None or self.difference.is_significant is None:
            return "not enough rounds"
        return {True: "helps", False: "makes it worse", None: "no significant difference"}[self.better]


def find_upgrades(ranked: Compared, names: Sequence[str], unmeasured: Collection[str], *, seed: int) -> tuple[Upgrade, ...]:
    """Return the upgrades between ``names``, versions in the order of the matrix, in what is ranked.

    ``unmeasured``: versions on which a completed run has no value. ``seed``: of the bootstrap.
    """
    pairs = list(_list_pairs(names))
    differences = adjust(
        {pair: find_difference(ranked.standings[pair[1]].values, ranked.standings[pair[0]].values, seed=seed) for pair in pairs}
    )
    return tuple(_describe(ranked, pair, differences[pair], unmeasured) for pair in pairs)


def describe_upgrades(
    ranked: Compared, upgrades: Sequence[Upgrade], unsafe: Collection[str], undecided: Collection[str] = ()
) -> str:
    """Return in a few sentences whether the upgrades help.

    ``unsafe``: versions on which a run lost jobs, or repeated them without a reason. ``undecided``: those of which that is not known.
    """
    if not upgrades:
        return "No two versions of one engine were compared, so there is no upgrade to judge."
    rounds = max((upgrade.difference.rounds for upgrade in upgrades if upgrade.difference), default=0)
    if rounds < FEWEST_ROUNDS and not any(upgrade.unmeasured for upgrade in upgrades):
        return (
            f"{rounds} round{'s are' if rounds != 1 else ' is'} not enough to decide whether an upgrade helps; "
            f"repeat at least {FEWEST_ROUNDS} times: --repeat {FEWEST_ROUNDS}."
        )
    sentences = []
    for engine, of_engine in groupby(upgrades, key=lambda upgrade: read_version(upgrade.before).engine):
        *steps, whole = list(of_engine)
        sentences.append(_describe_one(ranked, whole))
        if decisive := [step for step in steps if step.better is not None]:
            listed = ", ".join(f"{step.title} ({step.change}, {step.answer})" for step in decisive)
            sentences.append(f"Of the single upgrades, these differ significantly: {listed}.")
        elif steps:
            sentences.append(
                f"No single upgrade of {read_version(f'{engine}:0').title.rpartition(' ')[0]} differs significantly."
            )
    for versions, what in (
        (unsafe, "not safe: a run lost jobs, or repeated them without a reason"),
        (undecided, "not shown to be safe: it is not known whether a run lost or repeated jobs"),
    ):
        if concerned := [read_version(name).title for name in dict.fromkeys(each.after for each in upgrades) if name in versions]:
            sentences.append(f"But {' and '.join(concerned)} {'is' if len(concerned) == 1 else 'are'} {what}.")
    return " ".join(sentences)


def _list_pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each version and the next one of its engine, and then, if there are more than two, the first and the last."""
    for _, of_engine in groupby(sorted(map(read_version, names)), key=lambda version: version.engine):
        versions = [str(version) for version in of_engine]
        yield from pairwise(versions)
        if len(versions) > 2:
            yield versions[0], versions[-1]


def _describe(ranked: Compared, pair: tuple[str, str], difference: Difference | None, unmeasured: Collection[str]) -> Upgrade:
    before, after = pair
    common = ranked.standings[before].values.keys() & ranked.standings[after].values.keys()
    mean = sum(ranked.standings[before].values[round_] for round_ in common) / len(common) if common else 0
    missing = tuple(name for name in pair if name in unmeasured)
    return Upgrade(
        before=before,
        after=after,
        difference=difference,
        share=difference.mean / mean if difference and mean else None,
        better=is_better(ranked.subject, difference) if difference and difference.is_significant and not missing else None,
        from_median=ranked.medians.get(before),
        to_median=ranked.medians.get(after),
        unmeasured=missing,
    )


def _describe_one(ranked: Compared, upgrade: Upgrade) -> str:
    figures = "no figures"
    if upgrade.from_median is not None and upgrade.to_median is not None:
        figures = f"{format_value(upgrade.to_median)} instead of {format_value(upgrade.from_median)}, {upgrade.change}"
    where = " and ".join(read_version(name).title for name in upgrade.unmeasured)
    what = {
        "helps": f"helps: {ranked.subject.key} is",
        "makes it worse": f"makes it worse: {ranked.subject.key} is",
        "no significant difference": f"makes no significant difference to {ranked.subject.key}:",
        "not measured in every run": f"was not judged by {ranked.subject.key}, because on {where} it was not measured in every run:",
        "not enough rounds": f"was not judged by {ranked.subject.key}, because there are not enough rounds:",
    }[upgrade.answer]
    return f"The upgrade from {upgrade.title} {what} {figures}."
