"""Prints a forecast to the terminal: first the answer, then what it is based on."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stallbench.base.duration import format_duration
from stallbench.console import TABLE_WIDTH, VisibleConsole
from stallbench.studies.forecast.backtest import Backtest
from stallbench.studies.forecast.prediction import SLOW_FACTOR, Estimate, Forecast
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL


def print_forecast(forecast: Forecast, console: Console | None = None) -> None:
    """Print the answer, the figures with their confidence intervals, the assumptions and the warnings."""
    console = console or VisibleConsole(highlight=False, width=TABLE_WIDTH)
    load = forecast.load
    console.print(
        f"\n{escape(forecast.queue)} at {load.rate:g} jobs/s, {load.workers} workers, {format_duration(load.work_s)} of work per job; "
        f"fitted to {forecast.fit.seconds} s of {escape(forecast.run)}"
    )
    console.print(f"[bold]{escape(describe_answer(forecast))}[/]\n")
    console.print(_figures(forecast))
    console.print(f"\n{_describe_model(forecast)}")
    console.print("Assumptions:")
    for assumption in forecast.assumptions:
        console.print(f"  - {escape(assumption)}")
    for warning in forecast.warnings:
        console.print(f"[yellow]warning: {escape(warning)}[/]")


def print_own_error(own: Backtest | None, console: Console | None = None) -> None:
    """Print how far a forecast from the run's first half is off in the run, or that this is not known."""
    console = console or VisibleConsole(highlight=False, width=TABLE_WIDTH)
    if own is None:
        console.print("\nIts error is not known: the run is too short to be fitted by halves, or had no load of its own.")
        return
    console.print(
        "\nIts error, measured: a forecast from the first half of this run, compared with the whole run, at the run's own load."
    )
    _print_figures(own, console)
    console.print("At another load the error is greater (docs/forecast.md); `stallbench limit` measures what this forecasts.")


def print_backtest(backtest: Backtest, console: Console | None = None) -> None:
    """Print the forecast beside what the other run measured."""
    console = console or VisibleConsole(highlight=False, width=TABLE_WIDTH)
    console.print()
    _print_figures(backtest, console)


def _print_figures(backtest: Backtest, console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column(f"in the {backtest.held_s:.0f} s of {escape(backtest.run)}")
    for heading in ("forecast", "measured", "error"):
        table.add_column(heading, justify="right")
    for figure in backtest.figures:
        table.add_row(
            figure.name,
            "never" if figure.forecast is None else f"{_format_figure(figure.forecast)} {figure.unit}",
            "did not happen" if figure.measured is None else f"{_format_figure(figure.measured)} {figure.unit}",
            "" if figure.error is None else f"{figure.error:+.0%}",
        )
    console.print(table)


def describe_answer(forecast: Forecast) -> str:
    """Return the answer in a sentence."""
    low, high = forecast.fit.dead_tuple_s_interval
    after = forecast.time_to_saturation_s
    if not forecast.saturates or after is None:
        return (
            f"No sign that dead tuples saturate this queue: with up to {forecast.fit.most_dead:,.0f} of them, each adds "
            f"{low * 1e6:.3f} to {high * 1e6:.3f} µs to a claim{_describe_worst(forecast.worst_time_to_saturation_s)}."
        )
    if forecast.capacity.value < forecast.load.rate:
        return (
            f"The load exceeds the capacity without any dead tuple: the workers can complete {forecast.capacity.value:,.0f} jobs/s, "
            f"and {forecast.load.rate:g} jobs/s are enqueued."
        )
    return f"The queue saturates {_format_s(after.value)} after a transaction begins to hold the horizon ({_format_span(after)})."


def _describe_worst(time_to_saturation_s: float) -> str:
    if not math.isfinite(time_to_saturation_s):
        return ""
    return f"; with the greatest of these costs, the queue would saturate after {_format_s(time_to_saturation_s)}"


def _figures(forecast: Forecast) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column(f"{CONFIDENCE_LEVEL:.0%} of the fits", justify="right")

    def add(name: str, estimate: Estimate | None, *, seconds: bool = False) -> None:
        if estimate is not None:
            describe = _format_s if seconds else _format_count
            table.add_row(name, describe(estimate.value), f"{describe(estimate.low)} to {describe(estimate.high)}")

    add("capacity without dead tuples, jobs/s", forecast.capacity)
    add(f"until a claim takes {SLOW_FACTOR:g} times as long", forecast.slow_claims_after_s, seconds=True)
    add("time to saturation", forecast.time_to_saturation_s, seconds=True)
    add("dead tuples by then", forecast.dead_at_saturation)
    add("waiting jobs after an hour", forecast.depth_after_hour)
    add("dead tuples after an hour", forecast.dead_after_hour)
    return table


def _describe_model(forecast: Forecast) -> str:
    fitted, model = forecast.fit, forecast.fit.model
    low, high = fitted.dead_tuple_s_interval
    races = (
        f"; claims longer than {model.race_free_s * 1e3:.2f} ms lose races for their job"
        if model.race > 0
        else "; no claim lost a race for its job"
    )
    return (
        f"A claim takes {fitted.claim_line.claim_s * 1e3:.2f} ms and {fitted.claim_line.dead_tuple_s * 1e6:.3f} µs ({low * 1e6:.3f} to {high * 1e6:.3f}) "
        f"per dead tuple (of up to {fitted.most_dead:,.0f}){races}.\n"
        f"The rest of a job, except its work, takes {model.other_s * 1e3:.2f} ms. The fit leaves {fitted.residual:.0%} of a second's service time "
        f"unexplained (median)."
    )


def _format_figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _format_span(estimate: Estimate) -> str:
    return f"{_format_s(estimate.low)} to {_format_s(estimate.high)}"


def _format_s(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "never"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _format_count(count: float) -> str:
    return f"{count:,.0f}" if math.isfinite(count) else "never"
