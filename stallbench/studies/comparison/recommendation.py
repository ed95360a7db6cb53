"""Makes the one sentence that says what to do. It uses only the figures that the page shows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from stallbench.studies.comparison.assessment import Assessment
from stallbench.studies.comparison.standings import Compared
from stallbench.verdicts.baseline.compared_metric import ComparedMetric
from stallbench.verdicts.baseline.statistics import FEWEST_ROUNDS

_MOST_COSTS = 2


def recommend(
    compared: Sequence[Compared],
    assessments: Mapping[str, Assessment],
    unsafe: Mapping[str, str],
    undecided: Mapping[str, str],
    judged_by: Mapping[str, ComparedMetric],
    references: Mapping[str, str],
) -> str:
    """Return the sentence, which variants would be recommended if they were safe, and which ones help against another problem.

    ``compared``: the ranked subject first, then the others. ``assessments``, ``unsafe``, ``undecided``: as in `stallbench.studies.comparison.results.Results`.
    ``judged_by``, ``references``: by variant, the subject that decides whether it helps, and the variant that it is compared with.
    """
    ranked = compared[0]
    first = next(iter(ranked.standings))
    by_another = {
        name: one for name, one in assessments.items() if judged_by[name] != ranked.subject or references[name] != first
    }
    assessments = {name: one for name, one in assessments.items() if name not in by_another}
    if not ranked.medians:
        return f"No run has a value of {ranked.subject.name}, so nothing can be recommended."
    most = max(len(standing.values) for standing in ranked.standings.values())
    if most < FEWEST_ROUNDS:
        rounds = "1 round is" if most == 1 else f"{most} rounds are"
        return f"{rounds} not enough for a recommendation; repeat at least {FEWEST_ROUNDS} times: --repeat {FEWEST_ROUNDS}."
    excluded = {**unsafe, **undecided}
    outcomes = {name: assessment.outcome for name, assessment in assessments.items() if assessment.outcome}
    if outcomes:
        sentence = _recommend_mitigation(compared, assessments, excluded)
        ahead = [name for name in ranked.by_rank if outcomes.get(name) == "works"]
    else:
        sentence = _describe_first(ranked, excluded)
        ahead = ranked.by_rank[:1]
    for reasons, what in ((unsafe, "not safe"), (undecided, "not shown to be safe")):
        if named := [name for name in ahead if name in reasons]:
            sentence += f" {_join(named)} would be ahead, but {'are' if len(named) > 1 else 'is'} {what}."
    helpful = [
        f" {name} {one.outcome} {one.reason}."
        for name, one in by_another.items()
        if one.outcome in ("works", "delays", "reduces") and name not in excluded
    ]
    return sentence + "".join(helpful)


def _recommend_mitigation(compared: Sequence[Compared], assessments: Mapping[str, Assessment], excluded: Collection[str]) -> str:
    ranked = compared[0]
    reference = next(iter(ranked.standings))
    works, delays = (
        [
            name
            for name in ranked.by_rank
            if name in assessments and assessments[name].outcome in outcomes and name not in excluded
        ]
        for outcomes in (("works",), ("delays", "reduces"))
    )
    candidates = works or delays
    if not candidates:
        undecided = [name for name in ranked.by_rank if name in assessments and assessments[name].outcome == "undecided"]
        if undecided:
            verb = "are" if len(undecided) > 1 else "is"
            return f"No variant is shown to help; {_join(undecided)} {verb} undecided. More rounds (--repeat) may decide."
        return f"None of the variants helps: {ranked.subject.name} is unchanged or worse."
    # Any variant that works is good enough, so one without a cost is preferred to one that is slightly ahead.
    free = [name for name in works if not any(_find_costs(compared, name))]
    best = (free or candidates)[0]
    figures = f"{ranked.subject.name} is {ranked.format_median(best)} instead of {ranked.format_median(reference)}"
    costs = _describe_costs(compared, best)
    if not works:
        return f"No variant is shown to prevent the degradation; {best} {assessments[best].outcome} it most: {figures}{costs}."
    others = [name for name in works if name != best]
    also = f"; {_join(others)} also work{'s' if len(others) == 1 else ''}" if others else ""
    return f"Use {best}: {figures}{costs}{also}."


def _describe_first(ranked: Compared, excluded: Collection[str]) -> str:
    safe = [name for name in ranked.by_rank if name in ranked.medians and name not in excluded]
    if not safe:
        return "None of the variants is shown to be safe, so none can be recommended."
    first, *others = safe
    sentence = f"{first} is first in {ranked.subject.name}, with {ranked.format_median(first)}"
    if not others:
        return f"{sentence}."
    tied = [name for name in others if not ranked.differ(first, name)]
    if tied:
        return f"{sentence}, but does not differ significantly from {_join(tied)}."
    return f"{sentence}, significantly ahead of all others."


def _describe_costs(compared: Sequence[Compared], name: str) -> str:
    costs = list(_find_costs(compared, name))
    if not costs:
        return ", at no measured cost"
    more = f" and {len(costs) - _MOST_COSTS} more" if len(costs) > _MOST_COSTS else ""
    return f", at a cost: {', '.join(costs[:_MOST_COSTS])}{more}"


def _find_costs(compared: Sequence[Compared], name: str) -> Iterator[str]:
    for each in compared:
        if each.subject.role == "cost" and each.is_costlier(name):
            yield f"{each.subject.key} {each.format_median(name)} instead of {each.format_median(each.references[name])}"


def _join(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
