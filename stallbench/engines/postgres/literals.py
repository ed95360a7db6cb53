"""How PostgreSQL writes constants and comments."""

from __future__ import annotations

import re

from stallbench.sql_literals import NUMBER, LiteralSyntax

LITERALS = LiteralSyntax(
    pattern=re.compile(
        r"(?P<comment>--[^\n]*|/\*)"
        r"|(?P<constant>\b[eE]'(?:[^'\\]|\\.|'')*(?:'|\\?$)|(?:\b[uU]&|\b[bBxXnN])?'(?:[^'\\]|\\[^'\\]|\\\\|'')*(?:'|\\'.*|\\?$)"
        r"|(?<![\w$])(?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=tag)|$)"
        rf"|{NUMBER})"
        r'|(?P<kept>"(?:[^"]|"")*(?:"|$))',
        re.DOTALL,
    ),
    nests_comments=True,
)
"""``standard_conforming_strings`` decides whether a quote after a backslash ends a string, and a text does not say what it was: all that follows is
hidden.
"""
