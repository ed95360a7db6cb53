"""Names and texts as SQL of PostgreSQL needs them in a statement that is shown: what they hide is written by number, so that it is visible and correct."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from stallbench.visible_text import is_visible, raw_of

NO_SQL = "not to be copied: a name in it has hidden characters, which SQL of this server cannot write by number"
"""What is said of a statement of MariaDB or MySQL with such a name."""
_QUOTED_NAME = re.compile('"(?:[^"]|"")*"')
_LAST_OF_FOUR_DIGITS = 0xFFFF


def quote_text(text: str) -> str:
    """Return ``text`` as an SQL literal of PostgreSQL or standard SQL; of PostgreSQL if it has hidden characters, which are written by number."""
    raw = raw_of(text)
    quoted = _number_hidden(raw.replace("'", "''"), _in_literal)
    return f" E'{quoted}'" if "\\" in quoted else f"'{quoted}'"


def quote_name(name: str) -> str:
    """Return ``name`` as an SQL identifier of PostgreSQL, quoted always: which words need it depends on the server's version."""
    return write_quoted('"' + raw_of(name).replace('"', '""') + '"')


def write_quoted(names: str) -> str:
    """Return names that a PostgreSQL server has quoted where SQL needs it, like ``app."Jobs"``, with hidden characters written by number."""
    return _QUOTED_NAME.sub(lambda found: _write_quoted_name(found[0]), raw_of(names))


def _write_quoted_name(quoted: str) -> str:
    numbered = _number_hidden(quoted, _in_name)
    return quoted if numbered == quoted.replace("\\", "\\\\") else f"U&{numbered}"


def _number_hidden(text: str, notation: Callable[[str], str]) -> str:
    """Return the text with two backslashes for each, and by ``notation`` what is hidden, and the spaces that look like another.

    In a name with hidden characters also marks: composed and decomposed letters look alike, and are different names.
    """
    keeps_marks = is_visible(text)

    def write(character: str) -> str:
        if character == "\\":
            return "\\\\"
        is_mark = unicodedata.category(character)[0] == "M"
        is_kept = character.isprintable() and (keeps_marks if is_mark else is_visible(character))
        return character if is_kept else notation(character)

    return "".join(map(write, text))


def _in_literal(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= _LAST_OF_FOUR_DIGITS else f"\\U{code:08x}"


def _in_name(character: str) -> str:
    code = ord(character)
    return f"\\{code:04x}" if code <= _LAST_OF_FOUR_DIGITS else f"\\+{code:06x}"
