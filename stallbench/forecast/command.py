"""One forecast, from what the user asks to what is printed; whatever cannot be meant is told in one line."""

from __future__ import annotations

import math
from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.forecast.backtest import Check, hold_against, require_comparable
from stallbench.forecast.cost_model import fit
from stallbench.forecast.observed import observe
from stallbench.forecast.prediction import Forecast, make_forecast
from stallbench.scenario.duration import parse_duration_s
from stallbench.verdicts.check import RunTables

_MOST_RATE = 1_000_000
_MOST_WORKERS = 256
_MOST_WORK_S = 3600.0


def forecast_run(folder: Path, *, rate: float | None, workers: int | None, work: str | None) -> Forecast:
    """Return the forecast of the run in ``folder`` at another load; what is none is the run's own.

    Raises `BadInputError` for a load that cannot be meant and for a run that says nothing about dead tuples.
    """
    if rate is not None and not (math.isfinite(rate) and 0 < rate <= _MOST_RATE):
        raise BadInputError(f"--rate is {rate:g}; expected jobs a second, above 0 and up to {_MOST_RATE:,}")
    if workers is not None and not 0 < workers <= _MOST_WORKERS:
        raise BadInputError(f"--workers is {workers}; expected a number from 1 to {_MOST_WORKERS}")
    work_s = None if work is None else _read_work_s(work)
    run = RunTables(folder)
    observed = observe(run)
    fitted = fit(observed, seed=int(run.record["seed"]))
    return make_forecast(observed, fitted, rate=rate, workers=workers, work_s=work_s)


def check_forecast(folder: Path, longer_folder: Path) -> tuple[Forecast, Check]:
    """Return the forecast of the run in ``folder`` at the load of that in ``longer_folder``, and what it was worth there.

    Raises `BadInputError` for runs that say nothing about dead tuples, or nothing about each other.
    """
    run, longer = RunTables(folder), observe(RunTables(longer_folder))
    observed = observe(run)
    require_comparable(observed, longer)
    fitted = fit(observed, seed=int(run.record["seed"]))
    forecast = make_forecast(observed, fitted, rate=longer.rate, workers=longer.workers, work_s=longer.work_s)
    return forecast, hold_against(forecast, longer)


def _read_work_s(work: str) -> float:
    try:
        work_s = parse_duration_s(work)
    except ValueError as error:
        raise BadInputError(f'--work is "{work}"; {error}') from error
    if work_s > _MOST_WORK_S:
        raise BadInputError(f'--work is "{work}"; expected an hour at most')
    return work_s
