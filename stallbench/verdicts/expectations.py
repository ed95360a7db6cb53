"""Is what the scenario says must be seen to be seen?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stallbench.verdicts.check import Check, Finding, RunTables


class Expectations(Check):
    """Holds each ``[[expect]]`` against the table of phases."""

    name = "expectations"
    place = 0

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each expectation of the scenario."""
        return [_judge_one(run, expectation) for expectation in run.record["scenario"]["expect"]]


def _judge_one(run: RunTables, expectation: Mapping[str, Any]) -> Finding:
    measure, _, statistic = expectation["metric"].partition(".")
    phase, relative_to = expectation["phase"], expectation["relative_to"]
    subject = f"{expectation['metric']} in {phase or 'the whole run'}"
    expected = _format_bounds(expectation)
    because = expectation["because"] or ""
    value = run.metric(measure, statistic, phase)
    if value is None:
        reason = f"{subject}: there are no data for it"
        return Finding(check="expectations", subject=subject, result="unknown", reason=reason, expected=expected, because=because)
    found = format_value(value)
    compared = value
    if relative_to is not None:
        base = run.metric(measure, statistic, relative_to)
        if not base:
            reason = f"{subject}: in {relative_to}, which it is relative to, it is {'unknown' if base is None else 'zero'}"
            return Finding(
                check="expectations", subject=subject, result="unknown", reason=reason, expected=expected, because=because
            )
        compared = value / base
        found = f"{compared:.2f} times {relative_to} ({found} against {format_value(base)})"
    at_least, at_most = expectation["at_least"], expectation["at_most"]
    holds = (at_least is None or compared >= at_least) and (at_most is None or compared <= at_most)
    return Finding(
        check="expectations",
        subject=subject,
        result="pass" if holds else "fail",
        reason=f"{subject} is {found}; expected {expected}",
        expected=expected,
        found=found,
        because=because,
    )


def _format_bounds(expectation: Mapping[str, Any]) -> str:
    unit = f" times {expectation['relative_to']}" if expectation["relative_to"] else ""
    bounds = [
        f"{words} {format_value(expectation[key])}{unit}"
        for key, words in (("at_least", "at least"), ("at_most", "at most"))
        if expectation[key] is not None
    ]
    return " and ".join(bounds)


def format_value(value: float) -> str:
    """Write a figure with as many digits as it is good for."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
