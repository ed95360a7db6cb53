"""Prints the limits to the terminal: the interval and the first exhausted resource of each, then every probe. Fits 120 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stallbench.base.number_text import format_value
from stallbench.console import TABLE_WIDTH, VisibleConsole
from stallbench.studies.limit.record import Limit, LimitPlan, LimitRecord
from stallbench.studies.limit.resources import UNKNOWN
from stallbench.studies.regressions import print_regressions

PROBE_HEADERS = ("jobs/s", "completed/s", "dead tuples", "sustained", "exhausted")
"""Of a table of probes; the bounded metric comes after the first."""


def print_limits(record: LimitRecord, report: str, console: Console | None = None) -> None:
    """Print what was found, and the path of the ``report``."""
    console = console or VisibleConsole(highlight=False, width=TABLE_WIDTH)
    limits = record.find_limits()
    console.print()
    for limit in limits:
        console.print(_show_probes(limit, record.plan))
    for limit in limits:
        answer = describe_limit(limit, record.plan, is_over=record.status == "completed")
        console.print(f"[bold]{escape(answer)}[/]", soft_wrap=True)
    if (share := describe_held_share(limits)) is not None:
        console.print(escape(share), soft_wrap=True)
    print_regressions(record.regressions, console)
    if record.status == "failed":
        console.print(f"[red]{escape(record.reason)}[/]", soft_wrap=True)
    console.print(f"report: {report}", soft_wrap=True)


def describe_limit(limit: Limit, plan: LimitPlan, *, is_over: bool) -> str:
    """Return the answer in one or two sentences. ``is_over``: whether the search was completed, or its time ended."""
    where = _describe_horizon(limit, plan)
    interval = limit.interval
    if interval.low is not None and interval.high is not None:
        answer = f"{where} the limit is between {interval.low:g} and {interval.high:g} jobs/s ({plan.slo.text})."
    elif interval.low is not None:
        why = "no higher rate was too high in every run" if limit.is_contradictory else "no higher rate was tried"
        answer = f"{where} the limit is above {interval.low:g} jobs/s ({plan.slo.text}): {why}."
    elif interval.high is not None:
        why = "no lower rate was sustained in every run" if limit.is_contradictory else "no lower rate was sustained"
        answer = f"{where} the limit is below {interval.high:g} jobs/s ({plan.slo.text}): {why}."
    elif limit.probes:
        answer = f"{where} the limit is not known: the runs contradict each other."
    else:
        answer = f"{where} nothing was tried."
    if not is_over:
        answer += " The search did not complete."
    elif not limit.is_complete:
        answer += " The time ended before the search was complete; give it more time with --within."
    elif limit.is_contradictory:
        answer += (
            " A rate was sustained in one run but not in another, so the interval is wide: "
            "the speed of the machine varies, or the limit is not sharp."
        )
    if interval.high is not None:
        answer += f" First exhausted: {_describe_resource(limit)}."
    return answer


def describe_held_share(limits: Sequence[Limit]) -> str | None:
    """Return the share of the limit that remains while the horizon is held; none if one of the two limits is not known."""
    intervals = {limit.horizon: limit.interval for limit in limits if limit.interval.is_bounded}
    if set(intervals) != {"free", "held"}:
        return None
    free, held = intervals["free"], intervals["held"]
    assert free.low is not None
    assert free.high is not None
    assert held.low is not None
    assert held.high is not None
    return f"While the horizon is held, {held.low / free.high:.0%} to {held.high / free.low:.0%} of the limit remains."


def _describe_horizon(limit: Limit, plan: LimitPlan) -> str:
    """A mitigation may let the server end the holder, so that the horizon is held for a part of the phase only."""
    if limit.horizon == "free":
        return "With the horizon free"
    holders = [choice for phase in plan.scenario.phases for choice in phase.longrunners]
    until = " at most, until the server ends the holder," if any(choice.may_be_ended for choice in holders) else ""
    return f"With the horizon held for {plan.duration_s:g} s{until}"


def _describe_resource(limit: Limit) -> str:
    if limit.first_exhausted == UNKNOWN:
        return "unknown; no measured resource reached its threshold"
    missed = sorted((probe for probe in limit.probes if not probe.is_sustained), key=lambda probe: probe.rate)
    use = next(use for probe in missed for use in probe.uses if use.resource == limit.first_exhausted and use.is_exhausted)
    return f"{limit.first_exhausted} ({use.description})"


def list_probe_rows(limit: Limit) -> list[tuple[str, ...]]:
    """Return the cells of each probe, by rising rate."""
    return [
        (
            f"{probe.rate:g}",
            "–" if probe.value is None else format_value(probe.value),
            format_value(probe.completed_rate),
            "–" if probe.dead_tuples is None else format_value(probe.dead_tuples),
            "yes" if probe.is_sustained else f"no: {probe.reason}",
            ", ".join(use.resource for use in probe.uses if use.is_exhausted),
        )
        for probe in sorted(limit.probes, key=lambda probe: probe.rate)
    ]


def _show_probes(limit: Limit, plan: LimitPlan) -> Table:
    table = Table(title=f"horizon {limit.horizon}", title_justify="left")
    rate, *others = PROBE_HEADERS
    for header in (rate, plan.slo.metric, *others):
        table.add_column(header, justify="left" if header in ("sustained", "exhausted") else "right")
    for row in list_probe_rows(limit):
        *figures, sustained, exhausted = map(escape, row)
        word, colon, why = sustained.partition(":")
        table.add_row(*figures, f"[{'green' if word == 'yes' else 'red'}]{word}[/]{colon}{why}", exhausted)
    return table
