"""Compares values of server settings that can be written in several ways: 4MB is 4096kB, 30000 (in ms) is 30s, 256M is 268435456."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stallbench.base.section import SettingValue

_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_KIB = 1024
_POSTGRES_UNITS: Mapping[str, float] = {
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
_INNODB_SUFFIXES: Mapping[str, float] = {"K": _KIB, "M": _KIB**2, "G": _KIB**3, "T": _KIB**4}
_BOOLEANS: Mapping[str, float] = {"on": 1, "true": 1, "yes": 1, "off": 0, "false": 0, "no": 0}


def normalize_postgres(text: str, unit: str | None) -> float | str:
    """Return what ``text`` means: a number, or a text in lower case. ``unit``: that of a number without one, as in ``pg_settings``."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return _BOOLEANS.get(text.lower(), text.lower())
    own = match[2] or unit
    if own is None:
        return float(match[1])
    return float(match[1]) * _POSTGRES_UNITS[own] if own in _POSTGRES_UNITS else text.lower()


def normalize_innodb(value: object) -> float | str:
    """Return what a value of MariaDB or MySQL means: a number, or a text in lower case."""
    text = str(value).strip()
    match = _NUMBER.fullmatch(text)
    suffix = match[2].upper() if match else ""
    if match is None or (suffix and suffix not in _INNODB_SUFFIXES):
        return _BOOLEANS.get(text.lower(), text.lower())
    return float(match[1]) * _INNODB_SUFFIXES.get(suffix, 1)


def innodb_argument(value: SettingValue) -> SettingValue:
    """Return ``value`` as `SET GLOBAL` takes it: 256M in bytes, because only option files know the suffixes."""
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    return int(float(match[1]) * _INNODB_SUFFIXES[match[2].upper()]) if match and match[2].upper() in _INNODB_SUFFIXES else value
