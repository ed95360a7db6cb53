"""Makes the tables in docs/libraries.md and docs/libraries-in-faults.md: what published runs of libraries showed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from stallbench import PROJECT
from stallbench.base.duration import format_duration
from stallbench.libraries import Library, find_libraries
from stallbench.libraries.definition import Rescue
from stallbench.libraries.settings import Setting, Settings, format_setting
from tools.generated_blocks import format_heading
from tools.library_tables.columns import CAPACITY, SATURATION
from tools.library_tables.comparisons import Row
from tools.library_tables.faults import find_fault_runs, make_fault_table
from tools.library_tables.held import HELD_TABLES
from tools.library_tables.reported import BACKLOG_TABLE, IDLE_TABLE
from tools.published import Published

PAGES = (PROJECT / "docs" / "libraries.md", PROJECT / "docs" / "libraries-in-faults.md")
"""Each table is on the page that has its markers."""
README = PROJECT / "README.md"
"""Shows a few columns of the first table."""
TABLES = (*HELD_TABLES, IDLE_TABLE, BACKLOG_TABLE)
"""The tables of comparisons."""
_FIRST = HELD_TABLES[0]
_IN_README = (CAPACITY.title, "latency p95, ms", "buffers per claim", SATURATION.title)
"""The columns of the first table that the README shows."""


def make_blocks(published: Published) -> tuple[dict[str, list[str]], list[str]]:
    """Return the lines of each block of `PAGES` and `README`, by its name, and a message for each comparison or run that may not be shown.

    A row is of the newest published comparison that includes the library, a cell of the table of faults of the newest run of its scenario. What
    nothing of this version replaces is of an earlier one, and marked as stale.
    """
    blocks: dict[str, list[str]] = {}
    messages: list[str] = []
    for table in TABLES:
        rows, footnotes, left_out = table.make_rows(published)
        blocks[table.name] = list(table.make(rows, footnotes))
        messages += left_out
        if table is _FIRST:
            blocks["libraries"] = list(_readme_table(rows))
    found, left_out = find_fault_runs(published)
    blocks["faults"] = list(make_fault_table(published, found))
    blocks |= {name: list(lines(find_libraries().values())) for name, lines in _OF_DEFINITIONS.items()}
    return blocks, [*messages, *left_out]


def _readme_table(rows: Sequence[Row]) -> Iterator[str]:
    """Choose from the rows of the first table."""
    after = {library.title_and_version: _format_rescue(library.rescue) for library in find_libraries().values()}
    shown = [row for row in rows if not row.reason]
    if shown and all("stale" in row.origin for row in shown):
        yield from ("*Stale: measured by an earlier version, to be measured again.*", "")
    yield from format_heading(["library", *_IN_README, "a dead worker's job is re-executed"])
    for row in rows:
        cells = [row.cells.get(title, "") for title in _IN_README]
        yield f"| {row.library} | {' | '.join(cells)} | {after[row.library]} |"


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
