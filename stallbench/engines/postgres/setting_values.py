"""Compares values of PostgreSQL's settings, which can be written in several ways: 4MB is 4096kB, 30000 (in ms) is 30s."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_KIB = 1024
_UNITS: Mapping[str, float] = {
    "B": 1,
    "kB": _KIB,
    "8kB": 8 * _KIB,
    "MB": _KIB**2,
    "GB": _KIB**3,
    "TB": _KIB**4,
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
"""Each in bytes or in microseconds. A setting has units of one of the two kinds."""
_BOOLEANS: Mapping[str, float] = {"on": 1, "true": 1, "yes": 1, "off": 0, "false": 0, "no": 0}


def normalize_setting(text: str, unit: str | None) -> float | str:
    """Return what ``text`` means: a number, or a text in lower case. ``unit``: that of a number without one, as in ``pg_settings``."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return _BOOLEANS.get(text.lower(), text.lower())
    own = match[2] or unit
    if own is None:
        return float(match[1])
    return float(match[1]) * _UNITS[own] if own in _UNITS else text.lower()
