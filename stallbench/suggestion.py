"""Finds the name that the user probably meant, for the issue of an unknown name or key (`keys_and_values`)."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

_ALIKE = 0.6
"""Smallest `difflib.SequenceMatcher.ratio` (0 to 1) of a name that is suggested; lower values suggest unrelated names."""


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name in ``known`` that is most similar to ``name``, ignoring case; none if no name is similar."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=_ALIKE)
    return by_folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "x"?`` for the name in ``known`` that is most similar to ``name``; empty if no name is similar."""
    nearest = find_nearest(name, known)
    return f'; did you mean "{nearest}"?' if nearest else ""


def describe_allowed(name: str, known: Collection[str], others: str = "") -> str:
    """Return which names are allowed, to follow ``; ``: before them, as a question, the one that is most similar to ``name``, if one is.

    ``others``: what else is allowed, like ``, or a path``.
    """
    allowed = f"xpected one of {', '.join(known)}{others}"
    nearest = find_nearest(name, known)
    return f'did you mean "{nearest}"? E{allowed}' if nearest else f"e{allowed}"
