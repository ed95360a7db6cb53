"""Finds characters that a terminal or a reader does not show."""

from __future__ import annotations

import unicodedata
from pathlib import Path


def find_hidden(text: str, *, allowed: str = "\n") -> list[str]:
    """Return the hidden characters of a text, each once and written out, except those that are ``allowed``."""
    hidden = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return sorted({ascii(one) for one in text if one not in allowed and unicodedata.category(one) in hidden})


def hidden_in_files(folder: Path) -> dict[str, list[str]]:
    """Return the hidden characters of each text file below a folder."""
    found: dict[str, list[str]] = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".parquet":
            hidden = find_hidden(path.read_text(errors="surrogateescape"), allowed="\n\t")
            found |= {str(path.relative_to(folder)): hidden} if hidden else {}
    return found
