"""A forecast held against another, longer run: what was foretold from the one, what was measured in the other, and the error."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stallbench.errors import BadInputError
from stallbench.forecast.capacity import Array, find_capacity
from stallbench.forecast.observed import Observed
from stallbench.forecast.prediction import Forecast
from stallbench.forecast.trajectory import find_course

END_S = 10
"""So many of the last seconds are taken together as the end of a run's hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that was foretold and measured."""

    name: str
    unit: str
    forecast: float | None
    """None if it never comes."""
    measured: float | None
    """None if it did not come while the horizon was held."""

    @property
    def error(self) -> float | None:
        """By how much of the measured the forecast was over (above zero) or under it; none if one of them is missing."""
        if self.forecast is None or not self.measured:
            return None
        return self.forecast / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a forecast was worth in one run that it was not fitted to."""

    run: str
    held_s: float
    figures: tuple[Figure, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        return {
            "run": self.run,
            "held_s": self.held_s,
            "figures": [asdict(figure) | {"error": figure.error} for figure in self.figures],
        }


def require_comparable(fitted_to: Observed, longer: Observed) -> None:
    """Raise `BadInputError` if ``longer`` cannot tell what a forecast from ``fitted_to`` is worth."""
    if longer.run == fitted_to.run:
        raise BadInputError(f"--against: {longer.run} is the run of the fit itself; expected another one")
    if longer.queue != fitted_to.queue:
        raise BadInputError(
            f"--against: {longer.run} ran the queue {longer.queue}, {fitted_to.run} ran {fitted_to.queue}; expected runs of one queue"
        )


def hold_against(forecast: Forecast, longer: Observed) -> Check:
    """Compare ``forecast``, made for the load of ``longer``, with what ``longer`` was."""
    line, law, load = forecast.fit.seen, forecast.fit.law, forecast.load
    dead = longer.dead[-END_S:]
    figures = [
        Figure(
            name="until it falls behind",
            unit="s",
            forecast=_finite(forecast.behind_after_s.value) if forecast.behind_after_s else None,
            measured=longer.fell_behind_after_s,
        ),
        Figure(
            name=f"claim at the end, at {dead.mean():,.0f} dead tuples",
            unit="ms",
            forecast=1e3 * _median(line.claim_s + line.dead_tuple_s * dead),
            measured=1e3 * _median(longer.claim_s[-END_S:]),
        ),
    ]
    if longer.fell_behind_after_s is not None:
        course = find_course(law, load, longer.kept_per_job, to_s=longer.held_s)
        figures += [
            Figure(
                name="jobs/s done at the end",
                unit="",
                forecast=float(np.minimum(find_capacity(law, load, dead), load.rate).mean()),
                measured=float(longer.completed[-END_S:].mean()),
            ),
            Figure(
                name="jobs that wait at the end",
                unit="",
                forecast=course.depth_after(longer.held_s),
                measured=longer.depth_at_end,
            ),
        ]
    return Check(run=longer.run, held_s=longer.held_s, figures=tuple(figures))


def _median(values: Array) -> float:
    return float(np.median(values))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
