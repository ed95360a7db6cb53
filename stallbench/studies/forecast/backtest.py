"""Compares a forecast from one run with another, longer run: forecast, measurement and error."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import numpy as np

from stallbench.errors import BadInputError
from stallbench.studies.forecast.capacity import Array, find_capacity
from stallbench.studies.forecast.cost_model import fit
from stallbench.studies.forecast.measured_run import FEWEST_SECONDS, MeasuredRun
from stallbench.studies.forecast.prediction import Forecast, make_forecast
from stallbench.studies.forecast.trajectory import find_trajectory

END_S = 10
"""How many of the last seconds with a held horizon are averaged as its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One quantity that was forecast and measured."""

    name: str
    unit: str
    forecast: float | None
    """None if it never happens."""
    measured: float | None
    """None if it did not happen while the horizon was held."""

    @property
    def error(self) -> float | None:
        """By what share of the measurement the forecast is too high (above zero) or too low; none if one of them is missing."""
        if self.forecast is None or not self.measured:
            return None
        return self.forecast / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """How far a forecast was off in a run that it was not fitted to."""

    run: str
    held_s: float
    figures: tuple[Figure, ...]

    def as_json(self) -> dict[str, object]:
        """Return it for ``--json``."""
        return {
            "run": self.run,
            "held_s": self.held_s,
            "figures": [asdict(figure) | {"error": figure.error} for figure in self.figures],
        }


def require_comparable(fitted_to: MeasuredRun, longer: MeasuredRun) -> None:
    """Raise `BadInputError` if a forecast from ``fitted_to`` cannot be compared with ``longer``."""
    if longer.run == fitted_to.run:
        raise BadInputError(f"--against: {longer.run} is the run that the forecast is fitted to; expected another run")
    if longer.queue != fitted_to.queue:
        raise BadInputError(
            f"--against: {longer.run} ran the queue {longer.queue}, {fitted_to.run} ran {fitted_to.queue}; expected runs of one queue"
        )


def backtest(forecast: Forecast, longer: MeasuredRun) -> Backtest:
    """Compare ``forecast``, made for the load of ``longer``, with what ``longer`` measured."""
    line, model, load = forecast.fit.claim_line, forecast.fit.model, forecast.load
    dead = longer.dead[-END_S:]
    figures = [
        Figure(
            name="time to saturation",
            unit="s",
            forecast=_finite(forecast.time_to_saturation_s.value) if forecast.time_to_saturation_s else None,
            measured=longer.time_to_saturation_s,
        ),
        Figure(
            name=f"claim at the end, at {dead.mean():,.0f} dead tuples",
            unit="ms",
            forecast=1e3 * _median(line.claim_s + line.dead_tuple_s * dead),
            measured=1e3 * _median(longer.claim_s[-END_S:]),
        ),
    ]
    if longer.time_to_saturation_s is not None:
        trajectory = find_trajectory(model, load, longer.kept_per_job, to_s=longer.held_s)
        figures += [
            Figure(
                name="jobs/s completed at the end",
                unit="",
                forecast=float(np.minimum(find_capacity(model, load, dead), load.rate).mean()),
                measured=float(longer.completed[-END_S:].mean()),
            ),
            Figure(
                name="jobs that wait at the end",
                unit="",
                forecast=trajectory.depth_after(longer.held_s),
                measured=longer.depth_at_end,
            ),
        ]
    return Backtest(run=longer.run, held_s=longer.held_s, figures=tuple(figures))


def hold_out(measured: MeasuredRun, *, seed: int) -> Backtest | None:
    """Fit a forecast to the first half of a run's seconds, and compare it with the whole run.

    None if a half is too short for a fit, or if the run had no load of its own.

    It shows how far this forecast is off on this machine with this queue, at the run's own load. For another load the error may be greater.
    ``seed``: of the bootstrap.
    """
    half = len(measured.dead) // 2
    if half < FEWEST_SECONDS or measured.rate <= 0 or measured.workers <= 0:
        return None
    first = replace(
        measured,
        dead=measured.dead[:half],
        claim_s=measured.claim_s[:half],
        calls_per_job=measured.calls_per_job[:half],
        empty_per_job=measured.empty_per_job[:half],
        completed=measured.completed[:half],
        busy=measured.busy[:half],
    )
    return backtest(make_forecast(first, fit(first, seed=seed)), measured)


def _median(values: Array) -> float:
    return float(np.median(values))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
