"""Numbers, counts and sizes as text, the same in every report."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB")


def format_value(value: float, unit: str = "") -> str:
    """Format a number with three significant digits below 100, and as a whole number above, and its ``unit`` if there is one."""
    if value == int(value) and abs(value) < 1e15:
        number = f"{int(value):,}"
    else:
        number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


def format_count(count: float | None) -> str:
    """Return a whole number with separators; ``?`` if it is unknown."""
    return "?" if count is None else f"{count:,.0f}"


def format_plural(count: float, one: str, many: str | None = None) -> str:
    """Return ``count`` with the noun for one, or for many (by default with an s)."""
    return f"{format_count(count)} {one if count == 1 else many or one + 's'}"


def format_bytes(size_bytes: float | None) -> str:
    """Return a size in the unit that leaves at most four digits; ``?`` if it is unknown. A kB has 1,024 bytes, as the servers count."""
    if size_bytes is None:
        return "?"
    size, unit = float(size_bytes), 0
    while abs(size) >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 10 else f"{size:.1f} {_UNITS[unit]}"
