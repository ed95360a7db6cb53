"""`stallbench forecast`: forecasts when a queue saturates."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from stallbench.commands.options import (
    RunsOption,
)
from stallbench.errors import (
    BadInputError,
)
from stallbench.run.folder import RUNS, find_run_folder


def forecast(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run in which a longrunner held the horizon: its folder, its name, or `latest`."),
    ],
    rate: Annotated[float | None, typer.Option("--rate", metavar="R", help="Jobs per second. Default: the run's.")] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="The number of workers. Default: the run's.")
    ] = None,
    work: Annotated[
        str | None, typer.Option("--work", metavar="TIME", help="The work time of a job, like 10ms. Default: the run's.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="RUN", help="Forecast the load of another run, and report the error of the forecast."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the forecast as JSON.")] = False,
    runs: RunsOption = RUNS,
) -> None:
    """Forecast when a queue saturates while a transaction holds the horizon.

    The forecast uses the cost of dead tuples that was measured in one short run. It prints its own error: how far a forecast from the first half
    of that run is off in the whole run. `stallbench limit` measures what a forecast only computes.

    Exit codes: 0 there is a forecast (including: the queue never saturates), 2 bad input, or a run without enough data for a forecast.

    For example:

        stallbench forecast latest
        stallbench forecast latest --rate 50 --workers 8 --work 10ms
    """
    from stallbench.studies.forecast.command import backtest_forecast, find_own_error, forecast_run
    from stallbench.studies.forecast.screen import print_backtest, print_forecast, print_own_error

    folder = find_run_folder(run, runs).path
    if against is None:
        found, backtest = forecast_run(folder, rate=rate, workers=workers, work=work), None
    elif (rate, workers, work) == (None, None, None):
        found, backtest = backtest_forecast(folder, find_run_folder(against, runs).path)
    else:
        raise BadInputError("--against uses the load of that run; leave out --rate, --workers and --work")
    own = find_own_error(folder)
    if as_json:
        errors = {"own_error": own.as_json() if own else None} | ({"against": backtest.as_json()} if backtest else {})
        print(json.dumps(found.as_json() | errors, indent=2))
        return
    print_forecast(found)
    print_own_error(own)
    if backtest:
        print_backtest(backtest)
