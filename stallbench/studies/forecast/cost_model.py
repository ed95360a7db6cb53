"""Fits the cost model of a queue to the seconds of one run, robustly: a second in which the machine was busy with other work changes it little.

The Theil-Sen estimator fits two lines. The first is the median claim time over the dead tuples; users notice this time. The second is a worker's
time per job without the job's work, over the dead tuples read. It includes slow claims, lost races and completions, and determines the
capacity. The confidence intervals come from a moving-block bootstrap, because neighbouring seconds resemble each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from stallbench.studies.forecast.capacity import CostModel, find_processor_share
from stallbench.studies.forecast.measured_run import Array, MeasuredRun
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL

_DRAWS = 200
_BLOCK_S = 5
_MOST_SECONDS = 300
"""Of one draw: Theil-Sen examines every pair of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLine:
    """Median claim time over dead tuples, as measured."""

    claim_s: float
    """Without dead tuples."""
    dead_tuple_s: float
    """What each dead tuple adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The cost model of a run, and the same fitted to redrawn seconds."""

    claim_line: ClaimLine
    model: CostModel
    draws: Sequence[tuple[ClaimLine, CostModel]]
    """Both, fitted to the redrawn seconds."""
    residual: float
    """Median relative difference between the measured and the fitted time of a job outside its work."""
    seconds: int
    most_dead: float
    """The greatest number of dead tuples in the run."""

    @property
    def dead_tuple_s_interval(self) -> tuple[float, float]:
        """What a dead tuple adds to a claim, at `CONFIDENCE_LEVEL`."""
        return find_interval([line.dead_tuple_s for line, _ in self.draws])

    @property
    def depends_on_dead_tuples(self) -> bool:
        """Whether a claim takes significantly longer with them: its confidence interval is above zero.

        The loss of capacity scatters more. That its confidence interval includes zero proves nothing once claims are known to be slower.
        """
        return self.dead_tuple_s_interval[0] > 0


def fit(measured: MeasuredRun, *, seed: int) -> Fit:
    """Fit the cost model to ``measured``. ``seed``: of the bootstrap, so that the same run has the same forecast."""
    line, model, residual = _fit_once(measured)
    random = np.random.default_rng(seed)
    draws = []
    for _ in range(_DRAWS):
        redrawn_line, redrawn_model, _ = _fit_once(_draw(measured, random))
        draws.append((redrawn_line, redrawn_model))
    return Fit(
        claim_line=line,
        model=model,
        draws=draws,
        residual=residual,
        seconds=len(measured.dead),
        most_dead=float(measured.dead.max()),
    )


def find_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the bounds between which `CONFIDENCE_LEVEL` of ``values`` lie."""
    low, high = np.percentile(values, [50 * (1 - CONFIDENCE_LEVEL), 50 * (1 + CONFIDENCE_LEVEL)], method="nearest")
    return float(low), float(high)


def _fit_once(measured: MeasuredRun) -> tuple[ClaimLine, CostModel, float]:
    slope, intercept = _fit_line(measured.dead, measured.claim_s)
    # A line through noise may cross zero, but a claim without dead tuples is never free.
    line = ClaimLine(claim_s=max(intercept, float(measured.claim_s.min()) / 2), dead_tuple_s=slope)

    at_processors = np.maximum(measured.busy - measured.completed * measured.work_s, 0.0)
    share = find_processor_share(at_processors, measured.workers, measured.cpus)
    outside_work_s = share * at_processors / measured.completed
    calls = measured.calls_per_job + measured.empty_per_job
    per_tuple, other_s = _fit_line(calls * measured.dead, outside_work_s - calls * line.claim_s)
    if per_tuple <= 0:
        per_tuple, other_s = _fit_by_claims(line, share, calls * measured.dead, outside_work_s - calls * line.claim_s)
    race, race_free_s = _fit_race(measured, line)
    model = CostModel(claim_s=line.claim_s, dead_tuple_s=per_tuple, other_s=max(other_s, 0.0), race=race, race_free_s=race_free_s)
    fitted = model.other_s + calls * (model.claim_s + model.dead_tuple_s * measured.dead)
    return line, model, float(np.median(np.abs(outside_work_s / fitted - 1)))


def _fit_line(x: Array, y: Array) -> tuple[float, float]:
    """Return slope and intercept; the slope is 0 if all ``x`` are equal."""
    if np.ptp(x) == 0:
        return 0.0, float(np.median(y))
    found = stats.theilslopes(y, x)
    return float(found.slope), float(np.median(y - found.slope * x))


def _fit_by_claims(line: ClaimLine, share: Array, walked: Array, rest_s: Array) -> tuple[float, float]:
    """Return the slope of the median claim time and its intercept, for runs in which noise hides the slope of the workers' total time."""
    slope = line.dead_tuple_s * float(np.median(share))
    return slope, float(np.median(rest_s - slope * walked))


def _fit_race(measured: MeasuredRun, line: ClaimLine) -> tuple[float, float]:
    """Return ``race`` and ``race_free_s``, from the claims that each job took and the completions by others during one claim."""
    claim_s = line.claim_s + line.dead_tuple_s * measured.dead
    by_others = measured.completed * (1 - 1 / measured.workers)
    if not (by_others.any() and (measured.calls_per_job > 1).any()):
        return 0.0, 0.0
    race, intercept = _fit_line(claim_s, np.log(measured.calls_per_job) / by_others)
    return (race, max(-intercept / race, 0.0)) if race > 0 else (0.0, 0.0)


def _draw(measured: MeasuredRun, random: np.random.Generator) -> MeasuredRun:
    seconds = len(measured.dead)
    block = min(_BLOCK_S, seconds)
    starts = random.integers(0, seconds - block + 1, size=-(-min(seconds, _MOST_SECONDS) // block))
    drawn = (starts[:, None] + np.arange(block)[None, :]).ravel()
    return replace(
        measured,
        dead=measured.dead[drawn],
        claim_s=measured.claim_s[drawn],
        calls_per_job=measured.calls_per_job[drawn],
        empty_per_job=measured.empty_per_job[drawn],
        completed=measured.completed[drawn],
        busy=measured.busy[drawn],
    )
