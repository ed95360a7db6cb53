"""Decides whether a mitigation helps.

*Degradation* is the difference between the ranked metric in its phase and in the same run's baseline (for a ratio to the baseline: the
difference to 1; for a metric whose value without the problem is declared: the difference to that). A variant can be judged by another
metric than the one that all are ranked by. A mitigation is assessed only if the scenario without a variant degrades. The outcome then
follows from the differences, which are paired by round and adjusted for the number of comparisons:

- *works*: significantly better than control, and at most `RESIDUAL_SHARE` of the degradation is left;
- *delays*: significantly better than control, but more than that is left: a longer disturbance would degrade it as far;
- *reduces*: the same, of a metric that need not grow with the disturbance: a number, a size, or one whose undegraded value is declared;
- *does not help*: no significant difference from control;
- *makes it worse*: significantly worse than control;
- *undecided*: the difference is significant alone, but not after the adjustment; more rounds may decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stallbench.measure_definition import Better
from stallbench.verdicts.baseline.statistics import ByRound, Difference, find_mean

RESIDUAL_SHARE = 0.25
"""Share of control's degradation, 0 to 1."""

Outcome = Literal["works", "delays", "reduces", "does not help", "makes it worse", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The outcome of one variant."""

    outcome: Outcome | None
    """None if the variant cannot be assessed at all."""
    reason: str
    """What the outcome follows from, or why there is none."""


def assess_variants(
    ranked: Mapping[str, ByRound],
    differences: Mapping[str, Difference | None],
    baseline: Mapping[str, ByRound] | None,
    *,
    better: Better,
    control: str,
    comparisons: int,
    seed: int,
    partly: Outcome = "delays",
) -> dict[str, Assessment]:
    """Return the assessment of each variant in ``differences``.

    ``ranked``: the ranked metric of each variant. ``differences``: of each variant but control, from control, adjusted for
    ``comparisons`` differences. ``baseline``: the same metric in the baseline, or none if it has no baseline. ``partly``: the outcome of a
    variant that is significantly better and leaves more than `RESIDUAL_SHARE`.
    """
    if baseline is None:
        return _decide_nothing(differences, "the ranked metric has no baseline")
    degradation = {name: _find_degradation(values, baseline[name], better) for name, values in ranked.items()}
    of_control = find_mean(degradation[control], seed=seed) if degradation[control] else None
    if of_control is None or of_control.low is None:
        return _decide_nothing(differences, "not enough rounds")
    if of_control.mean > 0 >= of_control.low:
        return _decide_nothing(differences, f"{control} degrades, but not significantly; more rounds may decide")
    if of_control.low <= 0:
        return _decide_nothing(differences, f"{control} does not degrade, so there is nothing to mitigate")
    assessments = {}
    for name, difference in differences.items():
        left = sum(degradation[name]) / len(degradation[name]) / of_control.mean if degradation[name] else None
        assessments[name] = _assess(difference, left, better, comparisons, partly)
    return assessments


def _decide_nothing(names: Mapping[str, object], reason: str) -> dict[str, Assessment]:
    return {name: Assessment(outcome=None, reason=reason) for name in names}


def _find_degradation(values: ByRound, baseline: ByRound, better: Better) -> list[float]:
    sign = 1 if better == "lower" else -1
    return [sign * (values[round_] - baseline[round_]) for round_ in sorted(values.keys() & baseline.keys())]


def _assess(difference: Difference | None, left: float | None, better: Better, comparisons: int, partly: Outcome) -> Assessment:
    if difference is None or difference.is_significant is None or left is None:
        return Assessment(outcome=None, reason="not enough rounds")
    is_worse = (difference.mean > 0) != (better == "higher")
    if difference.is_significant:
        if is_worse:
            return Assessment(outcome="makes it worse", reason="significantly worse")
        reason = f"{max(left, 0) * 100:.0f} % of the degradation is left"
        return Assessment(outcome="works" if left <= RESIDUAL_SHARE else partly, reason=reason)
    if difference.is_significant_alone:
        direction = "worse" if is_worse else "better"
        return Assessment(
            outcome="undecided",
            reason=f"{direction}, but not significantly after the adjustment for {comparisons} comparisons; more rounds may decide",
        )
    return Assessment(outcome="does not help", reason="no significant difference")
