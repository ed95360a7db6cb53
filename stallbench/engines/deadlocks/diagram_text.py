"""The styles of text in the drawing of a deadlock, and how a text is broken into lines that fit a box."""

from __future__ import annotations

import textwrap
import unicodedata
from dataclasses import dataclass

_NARROWEST_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Font:
    """A style of text, and the assumed width of a character: an upper estimate, because fonts differ."""

    css: str
    line_px: float
    character_px: float


NAME = Font("name", 21, 8.6)
MUTED = Font("muted", 18, 6.8)
CODE = Font("code", 17, 7.6)
PLACE = Font("place", 20, 8.8)
PLAIN = Font("plain", 18, 7.3)
SPACE = Font("", 5, 1)


def wrap(text: str, room_px: float, font: Font) -> list[str]:
    """Return ``text`` in lines that fit ``room_px``; a word that does not fit is broken."""
    # If any character is wide, all count as two columns: too much for a mixed text, but never too little.
    wide = any(unicodedata.east_asian_width(character) in "WF" for character in text)
    columns = int(room_px / font.character_px / (2 if wide else 1))
    return textwrap.wrap(text, max(columns, _NARROWEST_COLUMNS))
