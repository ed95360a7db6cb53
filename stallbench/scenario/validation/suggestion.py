"""Finds the name that somebody probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.6
"""From here on (0 to 1, `difflib.SequenceMatcher.ratio`) a name counts as near; lower ones suggest what nobody meant."""


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of ``known`` that is nearest to ``name``, whatever its case; none if none is near."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=_ALIKE)
    return by_folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "x"?`` for the one of ``known`` that is nearest to ``name``, or nothing if none is near."""
    nearest = find_nearest(name, known)
    return f'; did you mean "{nearest}"?' if nearest else ""
