"""What the terminal shows of a forecast: the answer first, then what it rests on."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stallbench.forecast.backtest import Check
from stallbench.forecast.cost_model import LEVEL
from stallbench.forecast.prediction import SHOWS_AT, Estimate, Forecast
from stallbench.scenario.duration import format_duration

_WIDTH = 120


def print_forecast(forecast: Forecast, console: Console | None = None) -> None:
    """Print the sentence that matters, the figures with their intervals, the assumptions and the warnings."""
    console = console or Console(highlight=False, width=_WIDTH)
    load = forecast.load
    console.print(
        f"\n{escape(forecast.queue)} at {load.rate:g} jobs/s, {load.workers} workers, {format_duration(load.work_s)} of work a job; "
        f"fitted to {forecast.fit.seconds} s of {escape(forecast.run)}"
    )
    console.print(f"[bold]{escape(describe_answer(forecast))}[/]\n")
    console.print(_figures(forecast))
    console.print(f"\n{_describe_law(forecast)}")
    console.print("It is assumed that")
    for assumption in forecast.assumptions:
        console.print(f"  - {escape(assumption)}")
    for warning in forecast.warnings:
        console.print(f"[yellow]warning: {escape(warning)}[/]")


def print_check(check: Check, console: Console | None = None) -> None:
    """Print what was foretold beside what the other run measured."""
    console = console or Console(highlight=False, width=_WIDTH)
    table = Table(box=None, pad_edge=False)
    table.add_column(f"in the {check.held_s:.0f} s of {escape(check.run)}")
    for heading in ("forecast", "measured", "error"):
        table.add_column(heading, justify="right")
    for figure in check.figures:
        table.add_row(
            figure.name,
            "never" if figure.forecast is None else f"{_format_figure(figure.forecast)} {figure.unit}",
            "not seen" if figure.measured is None else f"{_format_figure(figure.measured)} {figure.unit}",
            "" if figure.error is None else f"{figure.error:+.0%}",
        )
    console.print()
    console.print(table)


def describe_answer(forecast: Forecast) -> str:
    """Return the answer in a sentence."""
    low, high = forecast.fit.dead_tuple_s_interval
    after = forecast.behind_after_s
    if not forecast.falls_behind or after is None:
        return (
            f"No sign that dead tuples bring this queue down: with up to {forecast.fit.most_dead:,.0f} of them, one adds "
            f"{low * 1e6:.3f} to {high * 1e6:.3f} µs to a claim{_describe_worst(forecast.behind_at_worst_s)}."
        )
    if after.value == 0:
        return (
            f"It falls behind at once, without any dead tuple: {forecast.capacity.value:,.0f} jobs/s can be done, "
            f"and {forecast.load.rate:g} come."
        )
    return f"It falls behind {_format_s(after.value)} after a transaction begins to hold the horizon ({_format_span(after)})."


def _describe_worst(behind_at_worst_s: float) -> str:
    if not math.isfinite(behind_at_worst_s):
        return ""
    return f"; were it the most of that, it would fall behind after {_format_s(behind_at_worst_s)}"


def _figures(forecast: Forecast) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column(f"{LEVEL:.0%} of the fits", justify="right")

    def add(name: str, estimate: Estimate | None, *, seconds: bool = False) -> None:
        if estimate is not None:
            describe = _format_s if seconds else _format_count
            table.add_row(name, describe(estimate.value), f"{describe(estimate.low)} to {describe(estimate.high)}")

    add("jobs/s that can be done without dead tuples", forecast.capacity)
    add(f"until a claim takes {SHOWS_AT:g} times as long", forecast.shows_after_s, seconds=True)
    add("until it falls behind", forecast.behind_after_s, seconds=True)
    add("dead tuples by then", forecast.behind_at_dead)
    add("jobs that wait after an hour", forecast.depth_after_hour)
    add("dead tuples after an hour", forecast.dead_after_hour)
    return table


def _describe_law(forecast: Forecast) -> str:
    fitted, law = forecast.fit, forecast.fit.law
    low, high = fitted.dead_tuple_s_interval
    races = (
        f"; beyond {law.race_free_s * 1e3:.2f} ms it begins to lose races for its job"
        if law.race > 0
        else "; no claim lost a race for its job"
    )
    return (
        f"A claim takes {fitted.seen.claim_s * 1e3:.2f} ms and {fitted.seen.dead_tuple_s * 1e6:.3f} µs ({low * 1e6:.3f} to {high * 1e6:.3f}) "
        f"for each dead tuple (up to {fitted.most_dead:,.0f} seen){races}.\n"
        f"All else of a job but its work takes {law.other_s * 1e3:.2f} ms. The fit leaves {fitted.residual:.0%} of a second's service time "
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
