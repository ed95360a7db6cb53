"""What is particular to PostgreSQL's reports of deadlocks."""

from __future__ import annotations

import re

from stallbench.engines.deadlocks.style import DeadlockStyle

_PART = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|$))"
    r"|(?P<constant>\$\d+|\b[eE]'(?:[^'\\]|\\.|'')*(?:'|$)|'(?:[^']|'')*(?:'|$)|(?P<tag>\$\w*\$).*?(?:(?P=tag)|$))"
    r'|"(?P<name>(?:[^"]|"")*)"',
    re.DOTALL,
)
"""What must not be read as anything else: a quotation mark in a comment begins no string. A statement that is cut off may end within a string."""


def _hide_strings(sql: str) -> str:
    return _PART.sub(lambda part: " " if part["comment"] else "?" if part["constant"] else part["name"], sql)


STYLE = DeadlockStyle(session="process", held="blocked by", lists_in_order=True, hide_strings=_hide_strings)
"""It also lists who waits for the same lock and is before the waiter, as blocking it."""
