"""A validation issue: the path in the scenario, and the problem. Also formats paths and values for the user."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

KeyPath = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class ValidationIssue:
    """One issue; as text, a line like ``workers.count is "x"; expected a whole number``."""

    path: KeyPath
    """Keys and positions, from the top of the scenario to the value with the issue."""
    problem: str
    """The text after the path in the line, including its leading space or colon."""

    def __str__(self) -> str:
        return f"{show_key_path(self.path)}{self.problem}"


def show_key_path(path: Sequence[str | int]) -> str:
    """Return a path as a user would write it: ``phases[1].duration``."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            key = part if _BARE_KEY.fullmatch(part) else show_value(part)
            shown += f".{key}" if shown else key
    return shown or "the scenario"


def find_value(content: object, path: Sequence[str | int]) -> Any:
    """Return the value at ``path`` of ``content``, which consists of tables and arrays; None if there is no value: TOML has no null."""
    for part in path:
        if isinstance(content, dict):
            content = content.get(part)
        elif isinstance(content, list) and isinstance(part, int) and part < len(content):
            content = content[part]
        else:
            return None
    return content


def show_value(value: object) -> str:
    """Return a value as TOML writes it, shortened; for a table or array only its type."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    shown = json.dumps(text[:_SHOWN_CHARACTERS], ensure_ascii=False) if isinstance(value, str) else text[:_SHOWN_CHARACTERS]
    return shown + ("..." if len(text) > _SHOWN_CHARACTERS else "")


def quote_unprintable(text: str) -> str:
    """Return ``text`` on one line: characters that cannot be printed are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
