r"""Makes visible what a text hides: characters that control a terminal, change the direction of a line, or have no width.

A server's texts are written by others: names of sessions, users, databases and tables, statements, messages of errors, lines of logs. One with the
escape sequence of a terminal could overdraw the statement that a reader is about to copy, or set the clipboard. Each text is made visible where it
becomes a value, by the readers of the engines; `make_visible` at the outputs (terminal, pages, files) covers what comes from elsewhere, like the
folder of somebody else's run. To make a text visible again changes nothing.

Replaced, by the notation of Python (``\x1b``, ``\u202e``, ``\U000e0041``):

- control characters and format characters (categories Cc and Cf: directions, zero width, soft hyphens, tags, annotations), line and paragraph
  separators, surrogates, private use, and codes that are no characters. The joiner of composed emoji is one of them: the parts are shown.
- letters and marks that are drawn as nothing (Hangul fillers, the combining grapheme joiner, variation selectors), except a selector of a
  presentation (U+FE0E, U+FE0F) directly after a visible character, which emoji have.
- marks that would be drawn over something else: one without a character before it, and each beyond `_MOST_MARKS` on a character, which would be
  drawn over the lines above and below. No orthography needs so many.

Kept, because they are visible or move nothing: letters of every script, emoji, spaces of another width (U+00A0, U+3000), which prose needs. In the
names of SQL, where another space is another name, `stallbench.sql_names` writes them by number, too. Letters that look alike, and the
direction of Arabic and Hebrew letters themselves, stay.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Self, TextIO

_MOST_MARKS = 4
_LAYOUT = "\t\n"
_PRESENTATION = "\ufe0e\ufe0f"
_UNSEEN = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0xE0000, 0x10000))
    + "\U000e0000-\U0010ffff"
)
_HIDDEN = re.compile(f"[{_UNSEEN}]")
_PERHAPS = re.compile(
    f"[{_UNSEEN}\u0300-\u1eff\u20d0-\u20ff\u2cef-\u2cf1\u2d7f-\u2dff\u302a-\u309a\ua66f-\uabed\ufb1e\ufe20-\ufe2f\U00010000-\U0010ffff]"
)
"""Hidden characters and all marks, among others: a text without any of these is visible."""


def make_visible(text: str, *, in_one_line: bool = False, notation: Callable[[str], str] | None = None) -> str:
    r"""Return the text with a visible notation for each hidden character.

    Tabs and ends of lines stay, ``\r\n`` as ``\n``; ``in_one_line``: they are written, too, so that no text can begin a line of its own.
    ``notation``: another than `escape`.
    """
    if text.isascii() and text.isprintable():
        return str(text)
    lines = text.replace("\r\n", "\n")
    if not _PERHAPS.search(lines):
        return str(lines)
    write = notation or escape
    parts: list[str] = []
    marks = _MOST_MARKS  # a mark at the beginning would be drawn over what precedes the text
    for character in lines:
        is_mark = unicodedata.category(character)[0] == "M"
        if character in _PRESENTATION:
            is_hidden, marks = marks != 0, max(marks, 1)
        elif character in _LAYOUT:
            is_hidden, marks = in_one_line, _MOST_MARKS
        elif _HIDDEN.match(character):
            is_hidden, marks = True, _MOST_MARKS
        elif is_mark:
            is_hidden, marks = marks >= _MOST_MARKS, marks + 1
        else:
            is_hidden, marks = False, 0
        parts.append(write(character) if is_hidden else character)
    return "".join(parts)


def is_visible(text: str) -> bool:
    """Whether `make_visible` would leave the text, in one line, as it is."""
    return make_visible(text, in_one_line=True) == text


def escape(character: str) -> str:
    """Return the notation of one character."""
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def escape_in_json(character: str) -> str:
    """Return the notation of one character in a text of JSON, which stays the same text."""
    return json.dumps(character)[1:-1]


class VisibleText(str):
    """A text of a server that had hidden characters, made visible. `raw` is what the server has: for SQL that must name the same thing, never to be shown."""

    __slots__ = ("raw",)
    raw: str

    @classmethod
    def of(cls, raw: str) -> Self:
        """Make ``raw`` visible."""
        text = cls(make_visible(raw))
        text.raw = raw
        return text


def read_text(raw: str) -> str:
    """Return a text that a server has sent: itself if everything of it is visible, else a `VisibleText`."""
    return raw if make_visible(raw) == raw else VisibleText.of(raw)


def raw_of(text: str) -> str:
    """Return the text as the server has it."""
    return text.raw if isinstance(text, VisibleText) else text


def say(*texts: object, to: TextIO | None = None, sep: str = " ", flush: bool = False) -> None:
    """Print texts as ``print`` does, to standard output if ``to`` is None, with hidden characters made visible."""
    print(*(make_visible(str(text)) for text in texts), file=to, sep=sep, flush=flush)
