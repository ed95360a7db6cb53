"""The generated parts of pages: each is between two comments that have its name, and nothing reads what is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from stallbench.base.storage.atomic_file import replace_file
from stallbench.errors import BadInputError

Blocks = Mapping[str, Sequence[str]]
"""The lines of each block, by its name."""


def write_blocks(pages: Sequence[Path], blocks: Blocks) -> None:
    """Replace each of ``blocks`` on the one of ``pages`` that has its markers; raises `BadInputError` if none has, or several have."""
    for page, text in fill(pages, blocks).items():
        replace_file(page, text)


def fill(pages: Sequence[Path], blocks: Blocks) -> dict[Path, str]:
    """Return the text that each of ``pages`` has with ``blocks``; raises as `write_blocks` does."""
    texts = {page: page.read_text() for page in pages}
    for name, lines in blocks.items():
        begin, end = _markers(name)
        found = [page for page, text in texts.items() if begin in text and end in text]
        if len(found) != 1:
            there = "several pages have" if found else "no page has"
            raise BadInputError(
                f"{', '.join(map(str, texts))}: {there} the block {name}; one page needs the lines {begin.strip()} and {end}"
            )
        before, _, rest = texts[found[0]].partition(begin)
        texts[found[0]] = before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.partition(end)[2]
    return texts


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"


def format_heading(titles: Sequence[str]) -> Iterator[str]:
    """Yield the first two lines of a table."""
    yield f"| {' | '.join(titles)} |"
    yield "|" + "---|" * len(titles)


class Footnotes:
    """Numbers the sources of a table's cells, and marks those that are stale."""

    def __init__(self) -> None:
        """Begin without any."""
        self._texts: list[tuple[str, str]] = []

    def __bool__(self) -> bool:
        """Whether any cell refers to one."""
        return bool(self._texts)

    def refer_to(self, text: str, reasons: Iterable[str] = ()) -> str:
        """Return the number of the footnote ``text``; with ``reasons`` why what it is about is stale, with the mark of that."""
        source = (text, "; ".join(reasons))
        if source not in self._texts:
            self._texts.append(source)
        return f"{self._texts.index(source) + 1}{_STALE if source[1] else ''}"

    def add_to(self, table: Iterable[str]) -> Iterator[str]:
        """Yield the lines of a table and the footnotes below it. If all are stale for one reason, this is said once, before the table."""
        lines = list(table)
        reasons = {why for _, why in self._texts}
        is_all_stale = len(reasons) == 1 and reasons != {""}
        if is_all_stale:
            yield from (f"*Stale: all of this was {next(iter(reasons))}.*", "")
        yield from (line.replace(_STALE, "") for line in lines) if is_all_stale else lines
        if self._texts:
            yield ""
        for number, (text, why) in enumerate(self._texts, 1):
            yield f"{number}. {text}{f' *Stale*: {why}.' if why and not is_all_stale else ''}"


_STALE = " *stale*"
