"""Durations in scenarios: a number and a unit, like ``"90s"``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>us|ms|s|m|h)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration_s(text: object, like: str = "90s") -> float:
    """Return the seconds in a text like ``"90s"``, ``"1.5m"`` or ``"20ms"``; raises `ValueError`, with ``like`` as an example, for anything else."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f'expected a number with us, ms, s, m or h, like "{like}"')
    return float(match["number"]) * _SECONDS[match["unit"]]


def format_duration(seconds: float) -> str:
    """Return ``seconds`` (0 or more) as `parse_duration_s` reads it, in the largest unit that fits at least once and needs at most two decimals.

    A second or more that no unit shows so is in seconds.
    """
    if seconds < 1:
        unit = "ms" if seconds >= _SECONDS["ms"] else "us" if seconds else "s"
    else:
        fitting = (unit for unit in ("h", "m") if seconds >= _SECONDS[unit])
        unit = next((unit for unit in fitting if (seconds * 100 / _SECONDS[unit]).is_integer()), "s")
    return f"{seconds / _SECONDS[unit]:.10g}{unit}"


ON_RECORD = "on_record"
"""Key of a validation context. It is set if the scenario is read from a run's record, where durations are numbers of seconds."""


def _read_duration_s(value: object, info: ValidationInfo) -> object:
    return value if info.context and info.context.get(ON_RECORD) else parse_duration_s(value)


DURATION_SCHEMA = {"type": "string", "pattern": f"^{_DURATION.pattern}$".replace("?P<number>", "").replace("?P<unit>", "")}
"""Of a duration in a scenario's file; in a record it is a number."""
Duration = Annotated[float, BeforeValidator(_read_duration_s), WithJsonSchema(DURATION_SCHEMA)]
"""A field that is written as a duration and holds seconds."""
