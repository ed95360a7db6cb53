"""The fenced blocks of all pages: what a reader copies, and what a program printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from stallbench import PROJECT

PAGES = tuple(sorted(path.relative_to(PROJECT).as_posix() for path in (*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    """Of its first line, counted from one."""
    language: str
    """What follows the fence; empty if nothing does."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def read_blocks(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page, in its order."""
    blocks, opened, lines = [], None, []
    for number, line in enumerate((PROJECT / page).read_text().splitlines(), start=1):
        fence = re.fullmatch(r"( *)```(\S*)", line)
        if fence is None:
            lines.append(line)
        elif opened is None:
            opened, lines = (number + 1, fence), []
        else:
            first, start = opened
            text = "".join(f"{each.removeprefix(start[1])}\n" for each in lines)
            blocks.append(Block(page=page, line=first, language=start[2], text=text))
            opened = None
    assert opened is None, f"{page}: the block at line {opened[0]} has no end"
    return tuple(blocks)


def find_block(page: str, language: str, begins_with: str = "") -> str:
    """Return the text of the only block of a page in a language that begins so."""
    (block,) = [each for each in read_blocks(page) if each.language == language and each.text.startswith(begins_with)]
    return block.text
