"""Compares values of settings of MariaDB and MySQL, which can be written in several ways: 256M is 268435456, ON is 1."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stallbench.base.section import SettingValue

_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_KIB = 1024
_SUFFIXES: Mapping[str, float] = {"K": _KIB, "M": _KIB**2, "G": _KIB**3, "T": _KIB**4}
_BOOLEANS: Mapping[str, float] = {"on": 1, "true": 1, "yes": 1, "off": 0, "false": 0, "no": 0}


def normalize_setting(value: object) -> float | str:
    """Return what a value means: a number, or a text in lower case."""
    text = str(value).strip()
    match = _NUMBER.fullmatch(text)
    suffix = match[2].upper() if match else ""
    if match is None or (suffix and suffix not in _SUFFIXES):
        return _BOOLEANS.get(text.lower(), text.lower())
    return float(match[1]) * _SUFFIXES.get(suffix, 1)


def global_value(value: SettingValue) -> SettingValue:
    """Return ``value`` as `SET GLOBAL` takes it: 256M in bytes, because only option files know the suffixes."""
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    return int(float(match[1]) * _SUFFIXES[match[2].upper()]) if match and match[2].upper() in _SUFFIXES else value
