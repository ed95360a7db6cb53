"""Numbers and times as the report of `stallbench observe` shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from stallbench.sql_literals import LiteralSyntax, hide_literals

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def format_age(seconds: float | None) -> str:
    """Return a duration in its two largest units, like ``3 h 12 min``; ``?`` if it is unknown."""
    if seconds is None:
        return "?"
    seconds = max(seconds, 0.0)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    if seconds < 2 * _DAY_S:
        hours, rest_s = divmod(seconds, _HOUR_S)
        return f"{hours:.0f} h {rest_s // _MINUTE_S:.0f} min"
    days, rest_s = divmod(seconds, _DAY_S)
    return f"{days:,.0f} d {rest_s // _HOUR_S:.0f} h"


def format_since(age_s: float | None) -> str:
    """Return the time (UTC) at which something began that is ``age_s`` seconds old; with its date if that was more than a day ago."""
    if age_s is None:
        return "?"
    began = datetime.now(UTC) - timedelta(seconds=max(age_s, 0.0))
    return began.strftime("%H:%M:%S UTC" if age_s < _DAY_S else "%Y-%m-%d %H:%M UTC")


def format_moment(at: datetime) -> str:
    """Return a time as a report about the past shows it."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_ms(duration_ms: float | None) -> str:
    """Return a duration in milliseconds with three significant digits; ``?`` if it is unknown."""
    if duration_ms is None:
        return "?"
    return f"{duration_ms:,.0f} ms" if duration_ms >= 100 else f"{duration_ms:.3g} ms"


def shorten_text(text: str | None, syntax: LiteralSyntax, length: int = 90) -> str:
    """Return a statement without its values, in one line of at most ``length`` characters. What is shown may also be recorded."""
    line = " ".join(hide_literals(text or "", syntax).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def capitalize_first(text: str) -> str:
    """Return the text as the beginning of a sentence: names in it keep their letters, which ``str.capitalize`` would change."""
    return text[:1].upper() + text[1:]
