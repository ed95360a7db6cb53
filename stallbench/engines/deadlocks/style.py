"""How the reports of deadlocks differ between engines, as far as a deadlock is put together, compared and drawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'" + r'|"(?:[^"\\]|\\.|"")*"')


def hide_quoted(sql: str) -> str:
    """Return a statement with its strings as ``?``, which may be in double quotes, and without the quotation marks of names."""
    return _STRING.sub("?", sql).replace("`", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlockStyle:
    """One engine's. The defaults are InnoDB's, whose listing may not say which server wrote it."""

    session: str = "connection"
    """What a session is called."""
    held: str = "held by"
    """What leads from a lock to the session for which others wait."""
    lists_in_order: bool = False
    """Whether each transaction of a listing waits for the next one, so that the holder of a lock that is not listed follows from the order."""
    hide_strings: Callable[[str], str] = hide_quoted
    """Return a statement with its strings as ``?``, without comments and without the quotation marks of names."""


def style_of(server: str) -> DeadlockStyle:
    """Return the style of an engine, or the defaults if the listing did not name it."""
    from stallbench.engines import ENGINES

    return ENGINES[server].deadlock_style if server in ENGINES else DeadlockStyle()
