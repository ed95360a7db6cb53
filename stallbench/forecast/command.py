"""One forecast, from what the user asks to what is printed; whatever cannot be meant is told in one line."""

from __future__ import annotations

import math
from pathlib import Path

from stallbench.duration import parse_duration_s
from stallbench.errors import BadInputError
from stallbench.forecast.law import fit
from stallbench.forecast.observed import observe
from stallbench.forecast.outlook import Forecast, make_forecast
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


def _read_work_s(work: str) -> float:
    try:
        work_s = parse_duration_s(work)
    except ValueError as error:
        raise BadInputError(f'--work is "{work}"; {error}') from error
    if work_s > _MOST_WORK_S:
        raise BadInputError(f'--work is "{work}"; expected an hour at most')
    return work_s
