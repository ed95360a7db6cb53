"""Writes the tables in docs/libraries.md: what runs of published libraries showed, from the runs on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from stallbench import PROJECT
from stallbench.comparison.library_faults import find_fault_runs, make_fault_table
from stallbench.comparison.library_held import CAPACITY, HELD_TABLES, SATURATION, make_held_table
from stallbench.comparison.library_page import format_heading, read_cells, read_section, replace_section
from stallbench.errors import BadInputError
from stallbench.libraries import Library, find_libraries
from stallbench.libraries.definition import Rescue
from stallbench.scenario.duration import format_duration
from stallbench.storage.atomic_file import replace_file

PAGE = PROJECT / "docs" / "libraries.md"
README = PROJECT / "README.md"
"""Shows a few columns of the first table."""
_FIRST = HELD_TABLES[0]
_IN_README = (CAPACITY, "latency p95, ms", "buffers per claim", SATURATION)
"""The columns of the first table that the README shows."""


def write_tables(runs: Path, page: Path = PAGE, readme: Path = README) -> list[str]:
    """Replace the tables of ``page`` by what the runs below ``runs`` show, and that of ``readme``.

    Returns a message for each table, and one for each comparison or run that may not be shown. A row is of the newest comparison that includes
    the library, a cell of the table of faults of the newest run of its scenario. A row or cell that no run on disk has keeps what the page says.

    Raises `BadInputError` if there is no run of a library that may be shown, or if a page has no markers for a table.
    """
    text, short = page.read_text(), readme.read_text()
    comparisons = {table.name: table.find_comparisons(runs) for table in HELD_TABLES}
    found, left_out = find_fault_runs(runs)
    left_out = [*(message for _, messages in comparisons.values() for message in messages), *left_out]
    if not found and not any(records for records, _ in comparisons.values()):
        example = "stallbench run worker-crash --set 'queue={kind=\"library:river\"}'"
        raise BadInputError("\n".join([f"{runs}: has no run of a library that can be shown; try: {example}", *left_out]))
    messages = []
    for table in HELD_TABLES:
        records, _ = comparisons[table.name]
        text = replace_section(text, table.name, make_held_table(table, records, runs, read_section(text, table.name, page)))
        messages.append(f"{table.name}: from {', '.join(record.id for record in records) or 'no comparison'}")
    text = replace_section(text, "faults", make_fault_table(found, read_section(text, "faults", page)))
    for name, lines in (("rescue", _rescue_table), ("settings", _settings_table)):
        read_section(text, name, page)
        text = replace_section(text, name, lines(find_libraries().values()))
    read_section(short, "libraries", readme)
    short = replace_section(short, "libraries", _readme_table(read_section(text, _FIRST.name, page)))
    replace_file(page, text)
    replace_file(readme, short)
    return [*messages, f"faults: {len(found)} runs", *left_out]


def _readme_table(section: str) -> Iterator[str]:
    """Choose from the rows of the first table."""
    after = {library.title_and_version: _format_rescue(library.rescue) for library in find_libraries().values()}
    yield from format_heading(["library", *_IN_README, "a dead worker's job is re-executed"])
    for name, cells in read_cells(section).items():
        yield f"| {name} | {' | '.join(cells[title] for title in _IN_README)} | {after[name]} |"


def _rescue_table(libraries: Iterable[Library]) -> Iterator[str]:
    yield from format_heading(["library", "when the job of a dead worker is re-executed, at the defaults", "by what"])
    for library in libraries:
        yield f"| {library.title_and_version} | {_format_rescue(library.rescue)} | {library.rescue.what} |"


def _format_rescue(rescue: Rescue) -> str:
    if not rescue.by_default:
        return "never"
    if rescue.marks_failed:
        return f"never; failed after {format_duration(rescue.after_s or 0)}"
    return f"after {format_duration(rescue.after_s)}" if rescue.after_s else "at once"


def _settings_table(libraries: Iterable[Library]) -> Iterator[str]:
    yield from format_heading(["library", "language", "how it claims", "settings"])
    for library in libraries:
        settings = ", ".join(f"`{name}` {json.dumps(option.default)}" for name, option in library.options.items())
        yield f"| {library.title_and_version} | {library.language} | {library.summary} | {settings} |"
