"""The forecast: when this queue falls behind under a given load, when that begins to show, and how deep it is after an hour."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from stallbench.errors import BadInputError
from stallbench.forecast.capacity import Law, Load, find_capacity, find_limit
from stallbench.forecast.cost_model import LEVEL, ClaimLine, Fit, find_interval
from stallbench.forecast.observed import Observed
from stallbench.forecast.trajectory import Course, find_course

HOUR_S = 3600.0
SHOWS_AT = 2.0
"""It shows when a claim takes so many times as long as without dead tuples."""
_FAR = 3.0
"""Beyond so many times the dead tuples that were seen a forecast is a guess."""
_WIDE_RESIDUAL = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and the interval that the scatter of the run's seconds leaves it; infinite where it is never reached."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is to be expected, and on what it rests."""

    run: str
    queue: str
    load: Load
    kept_per_job: float
    fit: Fit
    falls_behind: bool
    """Whether dead tuples bring this queue down at all: its claims depend on them, or it cannot even do the rate without."""
    capacity: Estimate
    """Jobs a second without dead tuples."""
    behind_after_s: Estimate | None
    """From when the horizon is held; none if it never falls behind, and so below."""
    behind_at_dead: Estimate | None
    behind_at_worst_s: float
    """When it would fall behind if a dead tuple cost as much as the interval of the claims' slope allows; infinite if never."""
    fell_behind_after_s: float | None
    """When the run itself fell behind, under its own load."""
    shows_after_s: Estimate | None
    """Until a claim takes `SHOWS_AT` times as long."""
    depth_after_hour: Estimate | None
    dead_after_hour: Estimate | None
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it for ``--json``: seconds, jobs and tuples; null for what is never reached."""
        low, high = self.fit.dead_tuple_s_interval
        content = {
            "run": self.run,
            "queue": self.queue,
            "load": asdict(self.load),
            "kept_per_job": self.kept_per_job,
            "law": {
                "claim_s": self.fit.seen.claim_s,
                "dead_tuple_s": self.fit.seen.dead_tuple_s,
                "dead_tuple_s_low": low,
                "dead_tuple_s_high": high,
                "of_capacity": asdict(self.fit.law),
                "residual": self.fit.residual,
                "seconds": self.fit.seconds,
                "most_dead": self.fit.most_dead,
                "level": LEVEL,
            },
            "falls_behind": self.falls_behind,
            "behind_at_worst_s": self.behind_at_worst_s,
            "fell_behind_after_s": self.fell_behind_after_s,
            **{
                name: asdict(estimate) if (estimate := getattr(self, name)) else None
                for name in (
                    "capacity",
                    "behind_after_s",
                    "behind_at_dead",
                    "shows_after_s",
                    "depth_after_hour",
                    "dead_after_hour",
                )
            },
            "assumptions": self.assumptions,
            "warnings": self.warnings,
        }
        finite: dict[str, Any] = _without_infinity(content)
        return finite


def make_forecast(
    observed: Observed,
    fitted: Fit,
    *,
    rate: float | None = None,
    workers: int | None = None,
    work_s: float | None = None,
) -> Forecast:
    """Forecast ``rate``, ``workers`` and ``work_s``, the run's own where they are not given; raises `BadInputError` if nothing comes."""
    load = Load(
        rate=observed.rate if rate is None else rate,
        workers=observed.workers if workers is None else workers,
        work_s=observed.work_s if work_s is None else work_s,
        cpus=observed.cpus,
    )
    if load.rate <= 0 or load.workers <= 0:
        raise BadInputError(
            f"{observed.run}: {load.rate:g} jobs/s and {load.workers} workers; a queue only falls behind what comes and is worked: "
            "give --rate and --workers above 0"
        )

    def estimate(read: Callable[[ClaimLine, Law], float]) -> Estimate:
        low, high = find_interval([read(line, law) for line, law in fitted.draws])
        value = read(fitted.seen, fitted.law)
        return Estimate(value=value, low=min(low, value), high=max(high, value))

    capacity = estimate(lambda _, law: float(find_capacity(law, load, [0.0])[0]))
    falls_behind = fitted.depends_on_dead_tuples or capacity.value < load.rate
    courses = (
        {id(law): find_course(law, load, observed.kept_per_job, to_s=HOUR_S) for law in _laws(fitted)} if falls_behind else {}
    )

    def follow(read: Callable[[Course], float]) -> Estimate | None:
        return estimate(lambda _, law: read(courses[id(law)])) if falls_behind else None

    def see_double(line: ClaimLine, law: Law) -> float:
        if line.dead_tuple_s <= 0:
            return math.inf
        return courses[id(law)].when((SHOWS_AT - 1) * line.claim_s / line.dead_tuple_s)

    behind_at_dead = follow(lambda course: course.behind_at_dead)
    return Forecast(
        run=observed.run,
        queue=observed.queue,
        load=load,
        kept_per_job=observed.kept_per_job,
        fit=fitted,
        falls_behind=falls_behind,
        capacity=capacity,
        behind_after_s=follow(lambda course: course.behind_after_s),
        behind_at_dead=behind_at_dead,
        behind_at_worst_s=find_limit(replace(fitted.law, dead_tuple_s=fitted.dead_tuple_s_interval[1]), load)
        / (observed.kept_per_job * load.rate),
        fell_behind_after_s=observed.fell_behind_after_s,
        shows_after_s=estimate(see_double) if falls_behind else None,
        depth_after_hour=follow(lambda course: course.depth_after(HOUR_S)),
        dead_after_hour=follow(lambda course: course.dead_after(HOUR_S)),
        assumptions=_list_assumptions(observed, load),
        warnings=(*observed.notes, *_find_warnings(observed, fitted, load, behind_at_dead)),
    )


def _laws(fitted: Fit) -> Sequence[Law]:
    return [fitted.law, *(law for _, law in fitted.draws)]


def _list_assumptions(observed: Observed, load: Load) -> tuple[str, ...]:
    return (
        f"the horizon stays held, and each completed job leaves {observed.kept_per_job:.2f} dead tuples that stay, as in the run",
        "a claim costs the same for each dead tuple, however many there are",
        f"{load.cpus} processors, as fast and as busy with other things as during the run, serve claims and completions; work needs none of them",
        "jobs come evenly, and the workers wait for nothing else",
    )


def _find_warnings(observed: Observed, fitted: Fit, load: Load, behind_at_dead: Estimate | None) -> list[str]:
    warnings = []
    if behind_at_dead and fitted.depends_on_dead_tuples and behind_at_dead.value > _FAR * fitted.most_dead:
        warnings.append(
            f"far beyond what was seen: it falls behind at {behind_at_dead.value:,.0f} dead tuples, the run had at most {fitted.most_dead:,.0f}; "
            "a longer run, or a higher rate, makes the forecast surer"
        )
    if load.workers > 2 * observed.workers:
        warnings.append(
            f"{load.workers} workers are more than twice the {observed.workers} of the run; how they get in each other's way was not seen"
        )
    if fitted.residual > _WIDE_RESIDUAL:
        warnings.append(
            f"the fit leaves {fitted.residual:.0%} of a second's service time unexplained: the machine was disturbed, or the queue follows another law"
        )
    if observed.baseline_claim_s is not None and not 0.5 < fitted.seen.claim_s / observed.baseline_claim_s < 2:
        warnings.append(
            f"the fit says {fitted.seen.claim_s * 1e3:.2f} ms for a claim without dead tuples, the baseline had "
            f"{observed.baseline_claim_s * 1e3:.2f} ms: one of the two was disturbed"
        )
    return warnings


def _without_infinity(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {key: _without_infinity(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
