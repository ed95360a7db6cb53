"""Text and commands as parts of a Markdown page: none of their characters has a meaning there."""

from __future__ import annotations

import re

from stallbench.visible_text import make_visible

_MEANT = re.compile(r"\\(?=[!-/:-@\[-`{-~]|$)|[`\[|~]|<(?=[A-Za-z/!?])|&(?=#|[A-Za-z])")
"""What begins code, a link, an image, a cell, a fence, HTML or an entity; and a backslash that would take another character's meaning."""
_BACKTICKS = re.compile("`+")


class Markdown(str):
    """A part of a page that is Markdown already."""

    __slots__ = ()


def escape_markdown(text: str) -> Markdown:
    """Return ``text`` in one line, so that a page shows it as it is; emphasis, which changes only its look, is left."""
    if isinstance(text, Markdown):
        return text
    return Markdown(_MEANT.sub(r"\\\g<0>", make_visible(" ".join(text.splitlines()), in_one_line=True)))


def format_code(text: str) -> Markdown:
    """Return ``text`` as code, outside of a table: between more backticks than it has in a row."""
    line = make_visible(text, in_one_line=True)
    fence = "`" * (max(map(len, _BACKTICKS.findall(line)), default=0) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return Markdown(f"{fence}{space}{line}{space}{fence}")
