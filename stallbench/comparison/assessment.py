"""What a mitigation comes to, in one word, and what to do about it, in one sentence.

*Harm* is by how much the ranked metric is worse in its phase than at the same run's baseline (a ratio to the baseline: than 1). A word is
given only where the scenario without a variant really is harmed; then, from differences paired by round:

- *works*: really better than without, and at most `LEFT` of the harm is left;
- *delays*: really better than without, but more than that is left: a longer disturbance would take it as far;
- *does not help*: no real difference from without;
- *makes it worse*: really worse than without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stallbench.comparison.statistics import ByRound, Difference, find_difference, find_mean
from stallbench.comparison.subject import Better

LEFT = 0.25
"""Share of the harm, 0 to 1."""

Word = Literal["works", "delays", "does not help", "makes it worse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The word for one variant, or why there is none."""

    word: Word | None
    reason: str
    """What it was found from."""


def judge_variants(
    ranked: Mapping[str, ByRound], health: Mapping[str, ByRound] | None, *, better: Better, control: str, seed: int
) -> dict[str, Judgement]:
    """Return the judgement of each variant in ``ranked`` but ``control``.

    ``ranked``: the ranked metric. ``health``: the same metric before anything went wrong, or none if there is nothing of the kind.
    """
    others = [name for name in ranked if name != control]
    if health is None:
        return {name: Judgement(word=None, reason="the ranked metric has no baseline to be held against") for name in others}
    harm = {name: _find_degradation(values, health[name], better) for name, values in ranked.items()}
    without = find_mean(harm[control], seed=seed) if harm[control] else None
    if without is None or without.low is None:
        return {name: Judgement(word=None, reason="not enough rounds") for name in others}
    if without.low <= 0:
        return {name: Judgement(word=None, reason=f"{control} itself is not harmed: nothing to mend") for name in others}
    judged = {}
    for name in others:
        difference = find_difference(ranked[name], ranked[control], seed=seed)
        left = sum(harm[name]) / len(harm[name]) / without.mean if harm[name] else None
        judged[name] = _judge(difference, left, better)
    return judged


def _find_degradation(values: ByRound, health: ByRound, better: Better) -> list[float]:
    sign = 1 if better == "lower" else -1
    return [sign * (values[round_] - health[round_]) for round_ in sorted(values.keys() & health.keys())]


def _judge(difference: Difference | None, left: float | None, better: Better) -> Judgement:
    if difference is None or difference.is_significant is None or left is None:
        return Judgement(word=None, reason="not enough rounds")
    if not difference.is_significant:
        return Judgement(word="does not help", reason="no real difference")
    if (difference.mean > 0) != (better == "higher"):
        return Judgement(word="makes it worse", reason="really worse")
    reason = f"{max(left, 0) * 100:.0f} % of the harm is left"
    return Judgement(word="works" if left <= LEFT else "delays", reason=reason)
