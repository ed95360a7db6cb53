"""The forecast: when a queue saturates under a given load, when its claims become slow, and how many jobs wait after an hour."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from stallbench.errors import BadInputError
from stallbench.studies.forecast.capacity import CostModel, Load, find_capacity
from stallbench.studies.forecast.cost_model import ClaimLine, Fit, find_interval
from stallbench.studies.forecast.measured_run import MeasuredRun
from stallbench.studies.forecast.trajectory import Trajectory, find_trajectory
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL

HOUR_S = 3600.0
SLOW_FACTOR = 2.0
"""Claims are slow when they take so many times as long as without dead tuples."""
_FAR = 3.0
"""Beyond so many times the dead tuples of the run, a forecast is a guess."""
_WIDE_RESIDUAL = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and its confidence interval, from the scatter of the run's seconds; infinite if it is never reached."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The forecast, and what it is based on."""

    run: str
    queue: str
    load: Load
    kept_per_job: float
    fit: Fit
    saturates: bool
    """Whether the queue saturates at all: its claims depend on dead tuples, or its capacity is below the rate without any."""
    capacity: Estimate
    """Jobs per second without dead tuples."""
    time_to_saturation_s: Estimate | None
    """Seconds from when the horizon is held; none if the queue never saturates. The same holds for the other estimates below."""
    dead_at_saturation: Estimate | None
    worst_time_to_saturation_s: float
    """The same if a dead tuple cost as much as the upper bound of the confidence interval; infinite if never."""
    observed_time_to_saturation_s: float | None
    """When the run itself saturated under its own load; none if it did not."""
    slow_claims_after_s: Estimate | None
    """Seconds until a claim takes `SLOW_FACTOR` times as long."""
    depth_after_hour: Estimate | None
    dead_after_hour: Estimate | None
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return it for ``--json``, in seconds, jobs and tuples; null for what is never reached."""
        low, high = self.fit.dead_tuple_s_interval
        content: dict[str, object] = {
            "run": self.run,
            "queue": self.queue,
            "load": asdict(self.load),
            "kept_per_job": self.kept_per_job,
            "cost_model": {
                "claim_s": self.fit.claim_line.claim_s,
                "dead_tuple_s": self.fit.claim_line.dead_tuple_s,
                "dead_tuple_s_low": low,
                "dead_tuple_s_high": high,
                "of_capacity": asdict(self.fit.model),
                "residual": self.fit.residual,
                "seconds": self.fit.seconds,
                "most_dead": self.fit.most_dead,
                "level": CONFIDENCE_LEVEL,
            },
            "saturates": self.saturates,
            "worst_time_to_saturation_s": self.worst_time_to_saturation_s,
            "observed_time_to_saturation_s": self.observed_time_to_saturation_s,
            **{
                name: asdict(estimate) if (estimate := getattr(self, name)) else None
                for name in (
                    "capacity",
                    "time_to_saturation_s",
                    "dead_at_saturation",
                    "slow_claims_after_s",
                    "depth_after_hour",
                    "dead_after_hour",
                )
            },
            "assumptions": self.assumptions,
            "warnings": self.warnings,
        }
        return {name: _without_infinity(value) for name, value in content.items()}


def make_forecast(
    measured: MeasuredRun,
    fitted: Fit,
    *,
    rate: float | None = None,
    workers: int | None = None,
    work_s: float | None = None,
) -> Forecast:
    """Forecast a load of ``rate``, ``workers`` and ``work_s``, each the run's own if none; raises `BadInputError` for an empty load."""
    load = Load(
        rate=measured.rate if rate is None else rate,
        workers=measured.workers if workers is None else workers,
        work_s=measured.work_s if work_s is None else work_s,
        cpus=measured.cpus,
    )
    if load.rate <= 0 or load.workers <= 0:
        raise BadInputError(
            f"{measured.run}: {load.rate:g} jobs/s and {load.workers} workers; a forecast needs jobs and workers: "
            "give --rate and --workers above 0"
        )

    def estimate(read: Callable[[ClaimLine, CostModel], float]) -> Estimate:
        low, high = find_interval([read(line, model) for line, model in fitted.draws])
        value = read(fitted.claim_line, fitted.model)
        return Estimate(value=value, low=min(low, value), high=max(high, value))

    capacity = estimate(lambda _, model: float(find_capacity(model, load, [0.0])[0]))
    saturates = fitted.depends_on_dead_tuples or capacity.value < load.rate

    def follow(model: CostModel) -> Trajectory:
        return find_trajectory(model, load, measured.kept_per_job, to_s=HOUR_S)

    models = [fitted.model, *(model for _, model in fitted.draws)]
    trajectories = {id(model): follow(model) for model in models} if saturates else {}

    def estimate_on_trajectory(read: Callable[[Trajectory], float]) -> Estimate | None:
        return estimate(lambda _, model: read(trajectories[id(model)])) if saturates else None

    def find_slow_claims(line: ClaimLine, model: CostModel) -> float:
        if line.dead_tuple_s <= 0:
            return math.inf
        return trajectories[id(model)].when((SLOW_FACTOR - 1) * line.claim_s / line.dead_tuple_s)

    dead_at_saturation = estimate_on_trajectory(lambda trajectory: trajectory.dead_after(trajectory.time_to_saturation_s))
    worst = follow(replace(fitted.model, dead_tuple_s=fitted.dead_tuple_s_interval[1]))
    return Forecast(
        run=measured.run,
        queue=measured.queue,
        load=load,
        kept_per_job=measured.kept_per_job,
        fit=fitted,
        saturates=saturates,
        capacity=capacity,
        time_to_saturation_s=estimate_on_trajectory(lambda trajectory: trajectory.time_to_saturation_s),
        dead_at_saturation=dead_at_saturation,
        worst_time_to_saturation_s=worst.time_to_saturation_s,
        observed_time_to_saturation_s=measured.time_to_saturation_s,
        slow_claims_after_s=estimate(find_slow_claims) if saturates else None,
        depth_after_hour=estimate_on_trajectory(lambda trajectory: trajectory.depth_after(HOUR_S)),
        dead_after_hour=estimate_on_trajectory(lambda trajectory: trajectory.dead_after(HOUR_S)),
        assumptions=_list_assumptions(measured, load),
        warnings=(*measured.notes, *_find_warnings(measured, fitted, load, dead_at_saturation)),
    )


def _list_assumptions(measured: MeasuredRun, load: Load) -> tuple[str, ...]:
    return (
        f"the horizon stays held, and each completed job leaves {measured.kept_per_job:.2f} dead tuples that remain, as in the run",
        "each dead tuple adds the same time to a claim, however many there are",
        f"{load.cpus} processors, as fast and as busy with other work as during the run, serve claims and completions; work needs none of them",
        "jobs are enqueued evenly, and the workers wait for nothing else",
    )


def _find_warnings(measured: MeasuredRun, fitted: Fit, load: Load, dead_at_saturation: Estimate | None) -> list[str]:
    warnings = []
    if dead_at_saturation and fitted.depends_on_dead_tuples and dead_at_saturation.value > _FAR * fitted.most_dead:
        warnings.append(
            f"far beyond the run: the queue saturates at {dead_at_saturation.value:,.0f} dead tuples, the run had at most {fitted.most_dead:,.0f}; "
            "a longer run or a higher rate makes the forecast more certain"
        )
    if load.workers > 2 * measured.workers:
        warnings.append(
            f"{load.workers} workers are more than twice the {measured.workers} of the run, which does not show how so many interfere with each other"
        )
    if fitted.residual > _WIDE_RESIDUAL:
        warnings.append(
            f"the fit leaves {fitted.residual:.0%} of a second's service time unexplained: the machine was disturbed, or the cost model does not fit this queue"
        )
    if measured.baseline_claim_s is not None and not 0.5 < fitted.claim_line.claim_s / measured.baseline_claim_s < 2:
        warnings.append(
            f"the fit gives {fitted.claim_line.claim_s * 1e3:.2f} ms for a claim without dead tuples, the baseline had "
            f"{measured.baseline_claim_s * 1e3:.2f} ms: one of the two was disturbed"
        )
    return warnings


def _without_infinity(value: object) -> object:
    """Replace infinity, which JSON does not have, by none."""
    if isinstance(value, dict):
        return {key: _without_infinity(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
