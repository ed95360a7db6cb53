"""Refuses a JSON file that a version of stallbench with another format has written."""

from __future__ import annotations

from stallbench.errors import BadInputError


def require_format(content: object, expected: int, where: str, advice: str) -> None:
    """Raise `BadInputError` if ``content`` has another ``format``: its other keys cannot be validated then.

    ``content``: what was read from the file ``where``. What is no object, or has no number as its format, is left to validation.
    ``advice``: what to do, as the last part of the message.
    """
    found = content.get("format") if isinstance(content, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or found == expected:
        return
    age = "an older" if found < expected else "a newer"
    raise BadInputError(
        f"{where}: format {found} was written by {age} stallbench; this version reads format {expected}; {advice}"
    )
