"""How MariaDB and MySQL write constants and comments."""

from __future__ import annotations

import re

from stallbench.sql_literals import NUMBER, LiteralSyntax

LITERALS = LiteralSyntax(
    pattern=re.compile(
        r"(?P<comment>--(?=\s|$)[^\n]*|\#[^\n]*|/\*)"
        r"|(?P<constant>(?:\b[bBxXnN]|\b_\w+\s*)?'(?:[^'\\]|\\[^'\\]|\\\\|'')*(?:'|\\'.*|\\?$)"
        r"|\"(?:[^\"\\]|\\[^\"\\]|\\\\|\"\")*(?:\"|\\\".*|\\?$)"
        rf"|{NUMBER})"
        r"|(?P<kept>`(?:[^`]|``)*(?:`|$))",
        re.DOTALL,
    ),
    nests_comments=False,
)
"""Strings may be in double quotes. Whether a quote after a backslash ends one, ``NO_BACKSLASH_ESCAPES`` decides, and a text does not say what it was:
all that follows is hidden.
"""
