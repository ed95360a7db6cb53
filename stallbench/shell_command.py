"""Commands that a user is to copy into a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from stallbench.visible_text import is_visible

_NOT_PLAIN = re.compile(r"[^ !-&(-\[\]-~]")


def format_shell_command(words: Iterable[object]) -> str:
    """Return the words, some of which may come from somebody else's file, as one line that a shell reads as exactly these words."""
    return " ".join(quote_word(str(word)) for word in words)


def quote_word(word: str) -> str:
    r"""Return one word as a shell needs it. One with hidden characters is written as bash, zsh and ksh read it: ``$'\x1b'``."""
    if is_visible(word):
        return shlex.quote(word)
    return "$'" + _NOT_PLAIN.sub(_number_bytes, word) + "'"


def _number_bytes(found: re.Match[str]) -> str:
    """Return the bytes of a character by number: what a shell makes of the number of a character depends on its locale."""
    try:
        encoded = found[0].encode(errors="surrogateescape")  # as in the name of a file that is no UTF-8
    except UnicodeEncodeError:
        encoded = found[0].encode(errors="surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in encoded)
