"""Hides the values in a statement of somebody else: strings, numbers and comments, which may hold what nobody should find in a record or a report."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = r"(?<![\w$`.\"])(?:0[xX][0-9a-fA-F]+|\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
"""How numbers are written, in every dialect of SQL."""
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralSyntax:
    """How a dialect of SQL writes constants and comments."""

    pattern: re.Pattern[str]
    """Finds the next ``comment``, of which it has the beginning, the next ``constant``, or the next ``kept`` name in quotation marks."""
    nests_comments: bool


def hide_literals(statement: str, syntax: LiteralSyntax) -> str:
    """Return a statement with ``?`` for each constant, and without its comments. It may be cut off anywhere, also within a string."""
    return split_literals(statement, syntax)[0]


def split_literals(statement: str, syntax: LiteralSyntax) -> tuple[str, tuple[str, ...]]:
    """Return a statement as `hide_literals` does, and its constants as they were written."""
    parts: list[str] = []
    constants: list[str] = []
    position = 0
    while found := syntax.pattern.search(statement, position):
        parts.append(statement[position : found.start()])
        position = found.end()
        if found["comment"]:
            parts.append(" ")
            if found["comment"] == "/*":
                position = _end_of_comment(statement, position, nests=syntax.nests_comments)
        elif found["kept"]:
            parts.append(found["kept"])
        else:
            parts.append("?")
            constants.append(found["constant"])
    return "".join(parts) + statement[position:], tuple(constants)


def _end_of_comment(statement: str, position: int, *, nests: bool) -> int:
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(statement, position)):
        depth += (1 if nests else 0) if edge[0] == "/*" else -1
        position = edge.end()
    return len(statement) if depth else position
