"""The tables of libraries in the documentation as text: between two markers each, with rows that are kept and footnotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stallbench.errors import BadInputError

_NUMBER = re.compile(r"\((\d+)\)$")
"""The number of a footnote, at the end of a cell."""


def read_section(text: str, table: str, page: Path) -> str:
    """Return what is between the markers of ``table``; raises `BadInputError` if ``page``, whose content ``text`` is, has none."""
    begin, end = _markers(table)
    if not has_section(text, table):
        raise BadInputError(f"{page}: has no markers for the table {table}; add the lines {begin.strip()} and {end}")
    return text.partition(begin)[2].partition(end)[0]


def has_section(text: str, table: str) -> bool:
    """Whether ``text`` has the markers of ``table``."""
    return all(marker in text for marker in _markers(table))


def replace_section(text: str, table: str, lines: Iterable[str]) -> str:
    """Return ``text`` with ``lines`` between the markers of ``table``."""
    begin, end = _markers(table)
    before, _, rest = text.partition(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.partition(end)[2]


def read_rows(section: str) -> list[list[str]]:
    """Return the cells of each row; the first row has the titles."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line.startswith("| ")]


def read_cells(section: str) -> dict[str, dict[str, str]]:
    """Return the cells of each row by their titles, by the row's first cell."""
    titles, *rows = read_rows(section) or [[]]
    return {row[0]: dict(zip(titles, row, strict=False)) for row in rows}


def format_heading(titles: Sequence[str]) -> Iterator[str]:
    """Yield the first two lines of a table."""
    yield f"| {' | '.join(titles)} |"
    yield "|" + "---|" * len(titles)


class Footnotes:
    """Numbers the sources of a table's cells, those that are kept from the page included."""

    def __init__(self, section: str) -> None:
        """Read the footnotes that ``section`` has."""
        self._before = dict(re.findall(r"^(\d+)\. (.+)$", section, re.MULTILINE))
        self._texts: list[str] = []

    def __bool__(self) -> bool:
        """Whether any cell refers to one."""
        return bool(self._texts)

    def refer_to(self, text: str) -> int:
        """Return the number of the footnote ``text``."""
        if text not in self._texts:
            self._texts.append(text)
        return self._texts.index(text) + 1

    def keep(self, number: str) -> int:
        """Return the new number of a footnote of the section."""
        return self.refer_to(self._before.get(number, "?"))

    def keep_cell(self, cell: str) -> str:
        """Return a cell that ends with the number of a footnote, with the new number."""
        return _NUMBER.sub(lambda found: f"({self.keep(found[1])})", cell)

    def find(self, cell: str) -> str | None:
        """Return the footnote of the section to which a cell refers; none if it refers to none."""
        number = _NUMBER.search(cell)
        return self._before.get(number[1]) if number else None

    def lines(self) -> Iterator[str]:
        """Yield the footnotes, after an empty line."""
        if self._texts:
            yield ""
        for number, text in enumerate(self._texts, 1):
            yield f"{number}. {text}"


def _markers(table: str) -> tuple[str, str]:
    return f"<!-- {table}: begin -->\n", f"<!-- {table}: end -->"
