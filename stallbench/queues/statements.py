"""Reads a queue's SQL: one file beside the queue. Each statement has a name, and one sentence that says what it does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def read_statements(path: Path) -> dict[str, str]:
    """Return the statements of ``path`` by name, as written but for their comment lines.

    A statement begins at a line ``-- name: <name>`` and ends before the next one. Placeholders are PostgreSQL's own (``$1``),
    so that published statements need no change.
    """
    parts = _HEADING.split(path.read_text())
    names, bodies = parts[1::2], parts[2::2]
    return {
        name: "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
        for name, body in zip(names, bodies, strict=True)
    }


def fill_placeholders(statement: str, placeholders: Mapping[str, str]) -> str:
    """Return ``statement`` with each placeholder of an option replaced by its text."""
    for placeholder, text in placeholders.items():
        statement = statement.replace(placeholder, text)
    return statement
