"""Reads a scenario's file, or another in the same notation, as plain tables, arrays, texts and numbers; and writes one.

Rejects files that are too large, too deep or not TOML. Nothing here knows the keys of a file.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from stallbench.base.validation_issue import KeyPath, ValidationIssue, quote_unprintable
from stallbench.errors import BadInputError

LARGEST_BYTES = 1024 * 1024
_DEEPEST = 16
"""Largest depth of nested tables and arrays; a valid scenario needs half of it."""
TOO_DEEP = f"tables or arrays are nested more than {_DEEPEST} deep"
_LARGEST_INTEGER = 2**63 - 1
_FOUND_LIMIT = 40
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

_POSITION = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_OF_A_TABLE = re.compile(r"Cannot (?P<what>declare|redefine namespace|mutate immutable namespace) \((?P<parts>.*)\)(?: twice)?")
_OURS = {
    "Cannot overwrite a value": "this key is given twice",
    "Illegal character '\\n'": "this text has no closing quote on its line",
}
"""Messages of Python's parser that do not name the cause, and the bench's messages in their place."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PART = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """What a file in TOML is for, in the words of its errors."""

    name: str
    """With its article, like ``a scenario``."""
    expected: str
    """What to give in place of something that is no file of this kind."""
    guide: str
    """Which page describes its contents."""


SCENARIO_FILE = FileKind(
    name="a scenario",
    expected="a scenario file, like scenarios/longtx.toml",
    guide="docs/add-a-scenario.md describes what a scenario contains",
)


class ScenarioError(BadInputError):
    """A scenario that cannot be run; its text is one line for each issue."""

    def __init__(self, issues: Sequence[str]) -> None:
        """``issues``: each a whole line. Characters that cannot be printed, such as a line break in a name, are escaped."""
        self.issues = [quote_unprintable(issue) for issue in issues]
        super().__init__("\n".join(self.issues))


def show_path(path: Path, project: Path) -> str:
    """Return ``path`` as one printable line: relative to ``project`` if it is inside, else as given."""
    shown = str(path.relative_to(project)) if path.is_relative_to(project) else str(path)
    return quote_unprintable(shown)


def read_toml(path: Path, shown: str, kind: FileKind = SCENARIO_FILE) -> dict[str, Any]:
    """Return the content of the file at ``path``; errors call it ``shown``. Raises `ScenarioError`."""
    text = _read_text(path, shown, kind)
    if not text.strip():
        raise ScenarioError([f"{shown}: empty; {kind.guide}"])
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError([f"{shown}: {_describe_syntax_error(str(error), text)}"]) from error
    except RecursionError as error:
        raise ScenarioError([f"{shown}: {TOO_DEEP}"]) from error
    except ValueError as error:  # Python refuses to convert a number of thousands of digits.
        raise ScenarioError([f"{shown}: a whole number is too long; expected at most 64 bits"]) from error
    if is_too_deep(content):
        raise ScenarioError([f"{shown}: {TOO_DEEP}"])
    return content


def is_too_deep(content: object) -> bool:
    """Whether tables and arrays are nested deeper than any scenario needs. If not, recursive functions can process the content."""
    layer = [content]
    for _ in range(_DEEPEST + 1):
        layer = [inner for value in layer for inner in _inside(value)]
    return bool(layer)


def find_unusable_values(content: object, path: KeyPath = ()) -> Iterator[ValidationIssue]:
    """Return an issue for each value that TOML allows but a scenario cannot use: dates, NaN, control characters, infinite numbers."""
    if isinstance(content, dict | list):
        for key, inner in content.items() if isinstance(content, dict) else enumerate(content):
            yield from find_unusable_values(inner, (*path, key))
    elif why := _why_unusable(content):
        yield ValidationIssue(path, why)


def _inside(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _why_unusable(value: object) -> str:
    if isinstance(value, datetime | date | time):
        return f" is {value.isoformat()}, a date or time; no key of a scenario takes one"
    if isinstance(value, float) and not math.isfinite(value):
        return f" is {value}; expected a finite number"
    if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        return " is a whole number of more than 64 bits; expected at most 64"
    if isinstance(value, str) and (found := _NOT_TEXT.search(value)):
        return f" contains the character U+{ord(found[0]):04X}; expected printable text"
    return ""


def _read_text(path: Path, shown: str, kind: FileKind) -> str:
    try:
        if path.is_dir():
            raise ScenarioError([f"{shown}: a folder; expected {kind.expected}"])
        size = path.stat().st_size
        if not path.is_file():
            raise ScenarioError([f"{shown}: not a file; expected {kind.expected}"])
        if size > LARGEST_BYTES:
            raise ScenarioError([f"{shown}: {size:,} bytes long; {kind.name} has at most {LARGEST_BYTES:,}"])
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES)
    except OSError as error:
        raise ScenarioError([f"{shown}: cannot be read: {error.strerror}"]) from error
    except ValueError as error:  # a null character in the path
        raise ScenarioError([f"{shown}: cannot be read: {error}"]) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ScenarioError([f"{shown}: line {line}: not UTF-8 text; expected a TOML file"]) from error


def _describe_syntax_error(message: str, text: str) -> str:
    """Turn the message of `tomllib` into: position, problem, and the line."""
    lines = text.split("\n")  # as the parser does: str.splitlines has more kinds of line breaks
    position = _POSITION.search(message)
    problem = _POSITION.sub("", message)
    if of_a_table := _OF_A_TABLE.fullmatch(problem):
        table = ".".join(_PART.findall(of_a_table["parts"]))
        complete = of_a_table["what"].startswith("mutate")
        problem = f"[{table}] adds to a table that is already complete" if complete else f"table [{table}] is given twice"
    problem = _OURS.get(problem, problem)
    problem = problem[:1].lower() + problem[1:]
    if position is None or position["line"] is None:
        line = text.rstrip("\n").count("\n") + 1
        where = f"line {line}, at its end"
    else:
        line, where = int(position["line"]), f"line {position['line']}, column {position['column']}"
    found = lines[line - 1].strip()
    if len(found) > _FOUND_LIMIT:
        found = f"{found[:_FOUND_LIMIT]}..."
    shown = f"; the line is `{found}`" if found else ""
    return f"{where}: not valid TOML: {problem}{shown}"


def format_toml(content: Mapping[str, Any]) -> str:
    """Return the text of a file with ``content``: each table, and each table of an array, under a header of its own; those within them in one line."""
    tables = {key: [each] for key, each in content.items() if isinstance(each, Mapping)}
    arrays = {
        key: each for key, each in content.items() if isinstance(each, list | tuple) and each and isinstance(each[0], Mapping)
    }
    lines = [f"{format_key(key)} = {format_value(each)}" for key, each in content.items() if key not in tables | arrays]
    for key, found in (tables | arrays).items():
        header = f"[{format_key(key)}]" if key in tables else f"[[{format_key(key)}]]"
        for table in found:
            lines += ["", header, *(f"{format_key(name)} = {format_value(value)}" for name, value in table.items())]
    return "\n".join(lines) + "\n"


def format_value(value: object) -> str:
    """Return a value in TOML, in one line; raises `BadInputError` for a type that TOML does not have."""
    if isinstance(value, bool | str | int | float):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{format_key(str(key))} = {format_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(format_value(each) for each in value) + "]"
    raise BadInputError(f"{value!r} is a {type(value).__name__}; expected a text, number, boolean, list or dictionary")


def format_key(key: str) -> str:
    """Return a key, in quotes if it needs them."""
    return key if _BARE.fullmatch(key) else json.dumps(key)
