"""Writes the tables in docs/libraries.md and docs/libraries-in-faults.md: what runs of published libraries showed, from the runs on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from stallbench import PROJECT
from stallbench.base.duration import format_duration
from stallbench.base.storage.atomic_file import replace_file
from stallbench.errors import BadInputError
from stallbench.libraries import Library, find_libraries
from stallbench.libraries.definition import Rescue
from stallbench.libraries.settings import Setting, Settings, format_setting
from tools.library_tables.columns import CAPACITY, SATURATION
from tools.library_tables.fault_figures import write_fault_figures
from tools.library_tables.faults import find_fault_runs, make_fault_table
from tools.library_tables.figures import FOLDER as FIGURES
from tools.library_tables.figures import name_of_figures, remove_unlinked_figures, write_figures
from tools.library_tables.held import HELD_TABLES
from tools.library_tables.reported import BACKLOG_TABLE, IDLE_TABLE
from tools.library_tables.text import format_heading, has_section, read_cells, read_section, replace_section

PAGES = (PROJECT / "docs" / "libraries.md", PROJECT / "docs" / "libraries-in-faults.md")
"""Each table is on the page that has its markers."""
README = PROJECT / "README.md"
"""Shows a few columns of the first table."""
TABLES = (*HELD_TABLES, IDLE_TABLE, BACKLOG_TABLE)
"""The tables of comparisons."""
_FIRST = HELD_TABLES[0]
_IN_README = (CAPACITY.title, "latency p95, ms", "buffers per claim", SATURATION.title)
"""The columns of the first table that the README shows."""


def write_tables(runs: Path, pages: Sequence[Path] = PAGES, readme: Path = README) -> list[str]:
    """Replace the tables of ``pages`` by what the runs below ``runs`` show, and that of ``readme``, and write the figures of each run beside them.

    Returns a message for each table, and one for each comparison or run that may not be shown. A row is of the newest comparison that includes
    the library, a cell of the table of faults of the newest run of its scenario. A row or cell that no run on disk has keeps what the page says.

    Raises `BadInputError` if there is no run of a library that may be shown, or if no page has the markers of a table.
    """
    texts = _Texts(pages)
    comparisons = {table.name: table.find_comparisons(runs) for table in TABLES}
    found, left_out = find_fault_runs(runs, texts.read("faults"))
    left_out = [*(message for _, messages in comparisons.values() for message in messages), *left_out]
    if not found and not any(records for records, _ in comparisons.values()):
        example = "stallbench run worker-crash --set 'queue={kind=\"library:river\"}'"
        raise BadInputError("\n".join([f"{runs}: has no run of a library that can be shown; try: {example}", *left_out]))
    messages = []
    for table in TABLES:
        records, _ = comparisons[table.name]
        texts.replace(table.name, table.make(records, runs, texts.read(table.name)))
        messages.append(f"{table.name}: from {', '.join(record.id for record in records) or 'no comparison'}")
    texts.replace("faults", make_fault_table(found, texts.read("faults")))
    for name, lines in _OF_DEFINITIONS.items():
        texts.replace(name, lines(find_libraries().values()))
    short = _Texts([readme])
    short.replace("libraries", _readme_table(texts.read(_FIRST.name)))
    for table in TABLES:
        shown = [record for record in comparisons[table.name][0] if name_of_figures(table.name, record) in texts.read(table.name)]
        for record in shown:
            write_figures(pages[0].parent / FIGURES, table.name, record, runs, table.columns)
    write_fault_figures(pages[0], found, texts.read("faults"))
    texts.write()
    short.write()
    remove_unlinked_figures(pages[0].parent / FIGURES, pages)
    return [*messages, f"faults: {len(found)} runs", *left_out]


class _Texts:
    """The texts of several pages, whose tables are replaced."""

    def __init__(self, pages: Sequence[Path]) -> None:
        self._texts = {page: page.read_text() for page in pages}

    def read(self, table: str) -> str:
        """Return what is between the markers of ``table``; raises `BadInputError` if no page has them."""
        page = self._find(table)
        return read_section(self._texts[page], table, page)

    def replace(self, table: str, lines: Iterable[str]) -> None:
        """Replace what is between the markers of ``table``; raises `BadInputError` if no page has them."""
        page = self._find(table)
        read_section(self._texts[page], table, page)
        self._texts[page] = replace_section(self._texts[page], table, lines)

    def write(self) -> None:
        """Replace the files."""
        for page, text in self._texts.items():
            replace_file(page, text)

    def _find(self, table: str) -> Path:
        return next((page for page, text in self._texts.items() if has_section(text, table)), next(iter(self._texts)))


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


def _retention_table(libraries: Iterable[Library]) -> Iterator[str]:
    yield from format_heading(["library", "completed jobs stay", "for how long, and what deletes them"])
    for library in libraries:
        if library.retention:
            yield f"| {library.title_and_version} | {'yes' if library.retention.kept else 'no'} | {library.retention.what} |"


def _settings_table(libraries: Iterable[Library]) -> Iterator[str]:
    yield from format_heading(["library", "language", "how it claims", "settings"])
    for library in libraries:
        settings = ", ".join(f"`{name}` {json.dumps(option.default)}" for name, option in library.options.items())
        yield f"| {library.title_and_version} | {library.language} | {library.summary} | {settings} |"


def _start_table(libraries: Iterable[Library]) -> Iterator[str]:
    yield from format_heading(["library", "a worker is started like", "in what the adapter differs"])
    for library in libraries:
        if library.start:
            yield f"| {library.title_and_version} | {library.start.like} | {library.start.differs} |"


def _workers_table(libraries: Iterable[Library]) -> Iterator[str]:
    names = list(Settings.model_fields)
    yield from format_heading(["library", *(name.replace("_", " ") for name in names), "where the values are from"])
    for library in libraries:
        in_force = library.find_settings({})
        values = library.compute_settings({})
        cells = [format_setting(name, values[name]) if name in values else "" for name in names]
        sources = "; ".join(_describe_source(name, setting) for name, setting in in_force.items())
        yield f"| {library.title_and_version} | {' | '.join(cells)} | {sources} |"


def _describe_source(name: str, setting: Setting) -> str:
    origin = [f"`queue.{setting.option}`"] * bool(setting.option) + [setting.source]
    return f"*{name.replace('_', ' ')}*: {', '.join(origin)}" + (f" ({setting.note})" if setting.note else "")


_OF_DEFINITIONS: Mapping[str, Callable[[Iterable[Library]], Iterator[str]]] = {
    "rescue": _rescue_table,
    "retention": _retention_table,
    "settings": _settings_table,
    "workers": _workers_table,
    "start": _start_table,
}
"""The tables that say what the libraries' definitions say."""
