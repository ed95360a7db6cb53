"""Hides the values in a statement of somebody else: strings, numbers and comments, which may hold what nobody should find in a record or a report."""

from __future__ import annotations

import re

_NUMBER = r"(?<![\w$`.\"])(?:0[xX][0-9a-fA-F]+|\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
_POSTGRES = re.compile(
    r"(?P<comment>--[^\n]*|/\*)"
    r"|(?P<constant>\b[eE]'(?:[^'\\]|\\.|'')*(?:'|\\?$)|(?:\b[uU]&|\b[bBxXnN])?'(?:[^'\\]|\\[^'\\]|\\\\|'')*(?:'|\\'.*|\\?$)"
    r"|(?<![\w$])(?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=tag)|$)"
    rf"|{_NUMBER})"
    r'|(?P<kept>"(?:[^"]|"")*(?:"|$))',
    re.DOTALL,
)
_MYSQL = re.compile(
    r"(?P<comment>--(?=\s|$)[^\n]*|\#[^\n]*|/\*)"
    r"|(?P<constant>(?:\b[bBxXnN]|\b_\w+\s*)?'(?:[^'\\]|\\[^'\\]|\\\\|'')*(?:'|\\'.*|\\?$)"
    r"|\"(?:[^\"\\]|\\[^\"\\]|\\\\|\"\")*(?:\"|\\\".*|\\?$)"
    rf"|{_NUMBER})"
    r"|(?P<kept>`(?:[^`]|``)*(?:`|$))",
    re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def hide_literals(statement: str, engine: str = "postgres") -> str:
    """Return a statement with ``?`` for each constant, and without its comments. It may be cut off anywhere, also within a string.

    Whether a quote after a backslash ends a string, a setting of the session decides (``standard_conforming_strings``, ``NO_BACKSLASH_ESCAPES``),
    and a text does not say what it was: all that follows is hidden.

    ``engine``: ``mariadb`` and ``mysql`` have strings in double quotes, and no ``E'..'``.
    """
    return split_literals(statement, engine)[0]


def split_literals(statement: str, engine: str = "postgres") -> tuple[str, tuple[str, ...]]:
    """Return a statement as `hide_literals` does, and its constants as they were written."""
    pattern = _POSTGRES if engine == "postgres" else _MYSQL
    parts: list[str] = []
    constants: list[str] = []
    position = 0
    while found := pattern.search(statement, position):
        parts.append(statement[position : found.start()])
        position = found.end()
        if found["comment"]:
            parts.append(" ")
            if found["comment"] == "/*":
                position = _end_of_comment(statement, position, nests=engine == "postgres")
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
