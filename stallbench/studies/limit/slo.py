"""The bound that a sustainable rate must meet, as the command line has it: ``latency_ms.p95 < 1s``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from stallbench.base.duration import parse_duration_s
from stallbench.base.number_text import format_value
from stallbench.errors import BadInputError
from stallbench.measures import MEASURES, measure_of, split_metric
from stallbench.scenario.expectation import require_metric

Operator = Literal["<", "<=", ">", ">="]
_TEXT = re.compile(r"\s*(?P<metric>[a-z0-9_.]+)\s*(?P<operator><=|>=|<|>)\s*(?P<value>\S+)\s*")
_PER_SECOND = {"ms": 1e3, "s": 1.0, "µs": 1e6}
_EXAMPLE = '"latency_ms.p95 < 1s"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """A metric of a phase, and its bound."""

    text: str
    """As the user gave it, with one space around the operator."""
    metric: str
    operator: Operator
    bound: float
    """In the metric's unit."""

    def holds(self, value: float) -> bool:
        """Whether a value meets the bound."""
        return {
            "<": value < self.bound,
            "<=": value <= self.bound,
            ">": value > self.bound,
            ">=": value >= self.bound,
        }[self.operator]

    def describe(self, value: float | None) -> str:
        """Return a value with the metric's name and unit."""
        measure, _ = split_metric(self.metric)
        unit = MEASURES[measure].unit
        return f"{self.metric} {'unknown' if value is None else format_value(value)}{f' {unit}' if value is not None and unit else ''}"


def parse_slo(text: str) -> Slo:
    """Return the bound; raises `BadInputError`, with what is allowed, if ``text`` is not a bound, or if the metric is not one of a phase."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise BadInputError(f'--slo "{text}": expected METRIC < VALUE (or <=, >, >=), like {_EXAMPLE}')
    metric = match["metric"]
    try:
        require_metric(metric)
    except ValueError as error:
        raise BadInputError(f'--slo "{text}": metric is "{metric}"; {error}') from None
    measure = measure_of(metric)
    assert measure is not None
    if measure.is_of_run:
        raise BadInputError(
            f'--slo "{text}": {measure.name} is measured over a whole run; expected a metric of a phase, like {_EXAMPLE}'
        )
    operator: Operator = match["operator"]  # type: ignore[assignment] # the pattern allows no other
    if measure.has_direction and (measure.better == "lower") != operator.startswith("<"):
        sense, expected = ("lower", "<") if measure.better == "lower" else ("higher", ">")
        raise BadInputError(f'--slo "{text}": {measure.name} is better when it is {sense}; expected {expected} or {expected}=')
    bound = _read_bound(text, match["value"], measure.unit)
    return Slo(text=f"{metric} {operator} {match['value']}", metric=metric, operator=operator, bound=bound)


def _read_bound(text: str, value: str, unit: str) -> float:
    try:
        if isfinite(number := float(value)):
            return number
    except ValueError:
        pass
    if unit in _PER_SECOND:
        try:
            return parse_duration_s(value) * _PER_SECOND[unit]
        except ValueError:
            raise BadInputError(
                f'--slo "{text}": the bound is "{value}"; expected a number of {unit}, or a duration like 1s or 500ms'
            ) from None
    raise BadInputError(f'--slo "{text}": the bound is "{value}"; expected a number{f" of {unit}" if unit else ""}')
