"""One sentence that says what to do, drawn from nothing but the figures beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stallbench.comparison.assessment import Judgement
from stallbench.comparison.standings import Compared
from stallbench.comparison.statistics import FEWEST_ROUNDS

_MOST_COSTS = 2


def recommend(compared: Sequence[Compared], judgements: Mapping[str, Judgement], broken: Mapping[str, str]) -> str:
    """Return the sentence, and what is to be said of variants that would be recommended if they did not break their promise.

    ``compared``: what is ranked first, then the rest. ``judgements``, ``broken``: as `stallbench.comparison.results` has them.
    """
    ranked = compared[0]
    if not ranked.medians:
        return f"No run gave a value of {ranked.subject.name}, so nothing can be recommended."
    seen = max(len(standing.values) for standing in ranked.standings.values())
    if seen < FEWEST_ROUNDS:
        rounds = "1 round is" if seen == 1 else f"{seen} rounds are"
        return f"{rounds} not enough to recommend anything; at least {FEWEST_ROUNDS} are, like --repeat {FEWEST_ROUNDS}."
    words = {name: judgement.word for name, judgement in judgements.items() if judgement.word}
    if words:
        sentence = _recommend_mitigation(compared, words, broken)
        first = [name for name in ranked.by_rank if words.get(name) == "works"]
    else:
        sentence = _describe_first(ranked, broken)
        first = ranked.by_rank[:1]
    unsafe = [name for name in first if name in broken]
    return (
        f"{sentence} {_join(unsafe)} would be ahead, but {'are' if len(unsafe) > 1 else 'is'} not safe." if unsafe else sentence
    )


def _recommend_mitigation(compared: Sequence[Compared], words: Mapping[str, str], broken: Mapping[str, str]) -> str:
    ranked = compared[0]
    reference = next(iter(ranked.standings))
    fit = {
        word: [name for name in ranked.by_rank if words.get(name) == word and name not in broken] for word in ("works", "delays")
    }
    candidates = fit["works"] or fit["delays"]
    if not candidates:
        return f"None of the variants helps: {ranked.subject.name} stays what it is, or gets worse."
    # What works is good enough; of several, one that costs nothing is better than one that is a little ahead.
    free = [name for name in fit["works"] if not any(_find_costs(compared, name, reference))]
    best = (free or candidates)[0]
    figures = f"{ranked.subject.name} is {ranked.describe(best)} instead of {ranked.describe(reference)}"
    price = _describe_price(compared, best, reference)
    if not fit["works"]:
        return f"None of the variants mends it; {best} delays it most: {figures}{price}."
    others = [name for name in fit["works"] if name != best]
    return f"Use {best}: {figures}{price}{f'; {_join(others)} would do too' if others else ''}."


def _describe_first(ranked: Compared, broken: Mapping[str, str]) -> str:
    whole = [name for name in ranked.by_rank if name in ranked.medians and name not in broken]
    if not whole:
        return "None of the variants kept its promise, so none can be recommended."
    first, spread = whole[0], ranked.standings[whole[0]].spread
    assert spread is not None, "it has a median"
    sentence = f"{first} is first in {ranked.subject.name}, with {ranked.describe(first)}"
    if len(whole) == 1:
        return f"{sentence}."
    tied = [name for name in whole[1:] if not ranked.differ(first, name)]
    return f"{sentence}, and cannot be told apart from {_join(tied)}." if tied else f"{sentence}, really ahead of all others."


def _describe_price(compared: Sequence[Compared], name: str, reference: str) -> str:
    """Tell in which costs the variant is really worse than the reference."""
    told = list(_find_costs(compared, name, reference))
    if not told:
        return ", at no cost that was measured"
    more = f" and {len(told) - _MOST_COSTS} more" if len(told) > _MOST_COSTS else ""
    return f", at a cost: {', '.join(told[:_MOST_COSTS])}{more}"


def _find_costs(compared: Sequence[Compared], name: str, reference: str) -> Iterator[str]:
    for each in compared:
        if each.subject.role == "cost" and each.is_dearer(name, reference):
            yield f"{each.subject.key} {each.describe(name)} instead of {each.describe(reference)}"


def _join(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
