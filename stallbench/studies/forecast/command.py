"""Makes the forecast or the backtest that the command line requests; invalid input raises one message."""

from __future__ import annotations

import math
from pathlib import Path

from stallbench.base.duration import parse_duration_s
from stallbench.errors import BadInputError
from stallbench.queues.load_bounds import MOST_RATE, MOST_WORK_S, MOST_WORKERS
from stallbench.studies.forecast.backtest import Backtest, backtest, hold_out, require_comparable
from stallbench.studies.forecast.cost_model import fit
from stallbench.studies.forecast.measured_run import read_measured_run
from stallbench.studies.forecast.prediction import Forecast, make_forecast
from stallbench.verdicts.check import RunTables


def forecast_run(folder: Path, *, rate: float | None, workers: int | None, work: str | None) -> Forecast:
    """Return the forecast from the run in ``folder`` for another load; each part of the load that is none is the run's own.

    Raises `BadInputError` for an invalid load, and for a run from which the cost of dead tuples cannot be fitted.
    """
    if rate is not None and not (math.isfinite(rate) and 0 < rate <= MOST_RATE):
        raise BadInputError(f"--rate is {rate:g}; expected jobs per second, above 0 and up to {MOST_RATE:,}")
    if workers is not None and not 0 < workers <= MOST_WORKERS:
        raise BadInputError(f"--workers is {workers}; expected a number from 1 to {MOST_WORKERS}")
    work_s = None if work is None else _read_work_s(work)
    run = RunTables(folder)
    measured = read_measured_run(run)
    fitted = fit(measured, seed=int(run.record.seed))
    return make_forecast(measured, fitted, rate=rate, workers=workers, work_s=work_s)


def find_own_error(folder: Path) -> Backtest | None:
    """Return how far a forecast from the first half of the run in ``folder`` is off in the whole run; none if a half is too short for one."""
    run = RunTables(folder)
    return hold_out(read_measured_run(run), seed=int(run.record.seed))


def backtest_forecast(folder: Path, longer_folder: Path) -> tuple[Forecast, Backtest]:
    """Return the forecast from the run in ``folder`` for the load of the run in ``longer_folder``, and how far it was off there.

    Raises `BadInputError` for runs from which the cost of dead tuples cannot be fitted, and for two runs that are not comparable.
    """
    run, longer = RunTables(folder), read_measured_run(RunTables(longer_folder))
    measured = read_measured_run(run)
    require_comparable(measured, longer)
    fitted = fit(measured, seed=int(run.record.seed))
    forecast = make_forecast(measured, fitted, rate=longer.rate, workers=longer.workers, work_s=longer.work_s)
    return forecast, backtest(forecast, longer)


def _read_work_s(work: str) -> float:
    try:
        work_s = parse_duration_s(work)
    except ValueError as error:
        raise BadInputError(f'--work is "{work}"; {error}') from error
    if work_s > MOST_WORK_S:
        raise BadInputError(f'--work is "{work}"; expected an hour at most')
    return work_s
