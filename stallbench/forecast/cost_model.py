"""Fits the law of a queue's cost to the seconds of one run, robustly: a second in which the machine was busy with something else moves it little.

Two lines by the Theil-Sen estimator: the median claim time over dead tuples, which is what a user sees, and the time of a worker for each job
outside its work over dead tuples walked, which is what capacity depends on (it also has the slow claims, the lost races and the completions in
it). Errors are those of a moving-block bootstrap: neighbouring seconds are alike, so whole stretches of them are drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from stallbench.forecast.capacity import Law, find_processor_share
from stallbench.forecast.observed import Array, Observed

LEVEL = 0.95
_DRAWS = 200
_BLOCK_S = 5
_MOST_SECONDS = 300
"""Of a draw: Theil-Sen looks at every pair of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLine:
    """Median claim time over dead tuples, as it was seen."""

    claim_s: float
    """Without dead tuples."""
    dead_tuple_s: float
    """What each adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A run's law, with what could as well have been it."""

    seen: ClaimLine
    law: Law
    draws: Sequence[tuple[ClaimLine, Law]]
    """The same, fitted to the seconds drawn again."""
    residual: float
    """Median relative difference between a job's time outside its work as measured in a second and as fitted."""
    seconds: int
    most_dead: float
    """The greatest number of dead tuples that was seen."""

    @property
    def dead_tuple_s_interval(self) -> tuple[float, float]:
        """What a dead tuple adds to a claim, at `LEVEL`."""
        return find_interval([line.dead_tuple_s for line, _ in self.draws])

    @property
    def depends_on_dead_tuples(self) -> bool:
        """Whether a claim really takes longer with them: the interval is above zero.

        What capacity loses by them is more scattered; that its interval has zero in it is no all-clear once claims are seen to be slower.
        """
        return self.dead_tuple_s_interval[0] > 0


def fit(observed: Observed, *, seed: int) -> Fit:
    """Fit the law to ``observed``; ``seed``: of the bootstrap, so that the same run has the same forecast."""
    line, law, residual = _fit_once(observed)
    random = np.random.default_rng(seed)
    draws = []
    for _ in range(_DRAWS):
        again, law_again, _ = _fit_once(_draw(observed, random))
        draws.append((again, law_again))
    return Fit(
        seen=line,
        law=law,
        draws=draws,
        residual=residual,
        seconds=len(observed.dead),
        most_dead=float(observed.dead.max()),
    )


def find_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the bounds between which `LEVEL` of ``values`` lie."""
    low, high = np.percentile(values, [50 * (1 - LEVEL), 50 * (1 + LEVEL)], method="nearest")
    return float(low), float(high)


def _fit_once(observed: Observed) -> tuple[ClaimLine, Law, float]:
    slope, intercept = _fit_line(observed.dead, observed.claim_s)
    # Without dead tuples a claim is not free, whatever a line through noise says.
    line = ClaimLine(claim_s=max(intercept, float(observed.claim_s.min()) / 2), dead_tuple_s=slope)

    at_processors = np.maximum(observed.busy - observed.completed * observed.work_s, 0.0)
    share = find_processor_share(at_processors, observed.workers, observed.cpus)
    outside_work_s = share * at_processors / observed.completed
    calls = observed.calls_per_job + observed.empty_per_job
    per_tuple, other_s = _fit_line(calls * observed.dead, outside_work_s - calls * line.claim_s)
    if per_tuple <= 0:
        per_tuple, other_s = _fit_by_claims(line, share, calls * observed.dead, outside_work_s - calls * line.claim_s)
    race, race_free_s = _fit_race(observed, line)
    law = Law(claim_s=line.claim_s, dead_tuple_s=per_tuple, other_s=max(other_s, 0.0), race=race, race_free_s=race_free_s)
    fitted = law.other_s + calls * (law.claim_s + law.dead_tuple_s * observed.dead)
    return line, law, float(np.median(np.abs(outside_work_s / fitted - 1)))


def _fit_line(x: Array, y: Array) -> tuple[float, float]:
    """Return slope and intercept; without a slope where ``x`` is everywhere the same."""
    if np.ptp(x) == 0:
        return 0.0, float(np.median(y))
    found = stats.theilslopes(y, x)
    return float(found.slope), float(np.median(y - found.slope * x))


def _fit_by_claims(line: ClaimLine, share: Array, walked: Array, rest_s: Array) -> tuple[float, float]:
    """Return slope and intercept as the median claim has them, where noise hides them from the sum of all that workers do."""
    slope = line.dead_tuple_s * float(np.median(share))
    return slope, float(np.median(rest_s - slope * walked))


def _fit_race(observed: Observed, line: ClaimLine) -> tuple[float, float]:
    """Return ``race`` and ``race_free_s`` of the law, from the claims that each job took and the completions by others during one."""
    claim_s = line.claim_s + line.dead_tuple_s * observed.dead
    by_others = observed.completed * (1 - 1 / observed.workers)
    if not (by_others.any() and (observed.calls_per_job > 1).any()):
        return 0.0, 0.0
    race, intercept = _fit_line(claim_s, np.log(observed.calls_per_job) / by_others)
    return (race, max(-intercept / race, 0.0)) if race > 0 else (0.0, 0.0)


def _draw(observed: Observed, random: np.random.Generator) -> Observed:
    seconds = len(observed.dead)
    block = min(_BLOCK_S, seconds)
    starts = random.integers(0, seconds - block + 1, size=-(-min(seconds, _MOST_SECONDS) // block))
    drawn = (starts[:, None] + np.arange(block)[None, :]).ravel()
    return replace(
        observed,
        dead=observed.dead[drawn],
        claim_s=observed.claim_s[drawn],
        calls_per_job=observed.calls_per_job[drawn],
        empty_per_job=observed.empty_per_job[drawn],
        completed=observed.completed[drawn],
        busy=observed.busy[drawn],
    )
