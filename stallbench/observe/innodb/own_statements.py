"""Recognises the observation's own queries among the statements that a server has counted: its digests contain no comments, and so no `MARK`."""

from __future__ import annotations

import re

Signature = tuple[str, ...]
"""The first words of a statement. A server cuts a digest off after 1024 bytes, by default."""

_MOST_WORDS = 30
_FEWEST_WORDS = 6
"""A shorter query, like ``SHOW GLOBAL STATUS LIKE ..``, may be another monitor's as well."""
_NO_WORDS = re.compile(r"/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|%s|%\(\w+\)s|[`\"]|\bsql_tsi_", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(r"(?<!\w)[a-z_]\w*")
_LEFT_OUT = {"null", "true", "false", "database", "schema", "user", "system_user", "regexp", "rlike", "distinct", "distinctrow"}
"""Digests have a question mark for a value, and one of several words that mean the same: SCHEMA for DATABASE, SYSTEM_USER for USER, RLIKE for REGEXP,
DISTINCTROW for DISTINCT, SQL_TSI_SECOND for SECOND.
"""


def sign(statement: str) -> Signature | None:
    """Return what a query and its digest have in common; none if it is too short to tell whose it is."""
    words = [word for word in _WORD.findall(_NO_WORDS.sub("", statement).lower()) if word not in _LEFT_OUT]
    return tuple(words[:_MOST_WORDS]) if len(words) >= _FEWEST_WORDS else None
