"""A table that compares libraries: which published comparisons it shows, and a row of each library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines import EngineName
from stallbench.evidence.staleness import OF_EARLIER_VERSIONS
from stallbench.libraries import Library, find_libraries
from stallbench.report.markdown import format_code
from stallbench.scenario.overlay import parse_changes
from stallbench.studies.comparison.formatting import NOT_RUN
from stallbench.studies.comparison.record import ComparedRun, ComparisonRecord
from stallbench.studies.comparison.report import format_command
from tools.generated_blocks import Footnotes, format_heading
from tools.library_tables.allowed_changes import AllowedChanges
from tools.library_tables.columns import Column, LibraryRuns
from tools.library_tables.library_run import LibraryRun
from tools.published import Published, link_study

_LIBRARY = "library"
_FROM = "from"


@dataclass(frozen=True, slots=True)
class Row:
    """The row of a library."""

    library: str
    """Title and version."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """By the heading of the column."""
    reason: str = ""
    """Why there are no figures; empty if there are."""
    origin: str = ""
    """The number of the footnote that says where it is from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryTable:
    """One of the tables: which comparisons it shows, and its columns."""

    name: str
    """Of its markers."""
    scenario: str
    allowed: AllowedChanges
    columns: tuple[Column, ...]
    load: Literal["own", "common", "any"]
    """Whether each library has a share of its own capacity, or all have the same load; ``any``: the scenario's load is no share."""
    engine: EngineName = "postgres"
    """Of the scenario."""
    find_lack: Callable[[Library], str] = lambda _: ""
    """Returns why a library cannot run the scenario on any engine; empty if it can."""

    def find_comparisons(self, published: Published) -> tuple[list[ComparisonRecord], list[str]]:
        """Return the comparisons that it shows, the oldest first, and a message for each that may not be shown."""
        found, messages = [], []
        for record in published.comparisons(self.scenario):
            scenario = record.scenario
            if not any(name.startswith(LIBRARY_PREFIX) for name in record.names):
                continue
            if self.load not in ("any", _find_load(record)):
                continue
            if issue := self.allowed.find_issue(scenario.name, scenario.file, scenario.variant, scenario.changes):
                messages.append(f"{record.id} is left out: {issue}")
            else:
                found.append(record)
        return found, messages

    def make_rows(self, published: Published) -> tuple[list[Row], Footnotes, list[str]]:
        """Return the rows, their footnotes, and a message for each comparison that may not be shown.

        A row is of the newest comparison that includes the library; without one, of what an earlier version published. A library that does not run on
        the table's engine, or that the newest comparison left out, has a row with the reason.
        """
        comparisons, messages = self.find_comparisons(published)
        earlier = published.earlier(f"libraries-{self.name}")
        before = {row.name: row for row in earlier.rows} if earlier else {}
        footnotes = Footnotes()
        rows = []
        for name, library in find_libraries().items():
            title = library.title_and_version
            of_it = [(record, compared) for record in comparisons if (compared := _carried_out(record, name))]
            if self.engine not in library.engines:
                rows.append(Row(title, reason=library.describe_lack_of(self.engine)))
            elif lack := self.find_lack(library):
                rows.append(Row(title, reason=f"does not run in this scenario: {lack}"))
            elif of_it:
                record, compared = of_it[-1]
                runs = [LibraryRun(published.run(Path(run.folder).name)) for run in compared if run.folder]
                of_library = LibraryRuns(record=record, compared=compared, runs=runs)
                cells = {column.title: column.describe(of_library) for column in self.columns}
                origin = footnotes.refer_to(self._describe(record, len(compared)), published.find_reasons(record))
                rows.append(Row(title, cells, origin=origin))
            elif title in before:
                origin = footnotes.refer_to(before[title].source, [OF_EARLIER_VERSIONS])
                rows.append(Row(title, before[title].cells, origin=origin))
            elif comparisons and (reason := comparisons[-1].left_out.get(LIBRARY_PREFIX + name)):
                origin = footnotes.refer_to(self._describe(comparisons[-1], comparisons[-1].rounds))
                rows.append(Row(title, reason=f"{NOT_RUN}: {reason}", origin=origin))
        return rows, footnotes, messages

    def make(self, rows: Sequence[Row], footnotes: Footnotes) -> Iterator[str]:
        """Yield the lines."""
        yield from footnotes.add_to(self._make_table(rows))
        if not footnotes:
            yield from ("", "Nothing is published yet.")

    def _make_table(self, rows: Sequence[Row]) -> Iterator[str]:
        titles = [column.title for column in self.columns]
        yield from format_heading([_LIBRARY, *titles, _FROM])
        for row in rows:
            cells = [row.reason, *[""] * (len(titles) - 1)] if row.reason else [row.cells.get(title, "") for title in titles]
            yield f"| {' | '.join([row.library, *cells, row.origin])} |"

    def _describe(self, record: ComparisonRecord, rounds: int) -> str:
        """Describe a comparison: when it was made, with a link to its file, and by which command."""
        return f"{link_study(record)}: {rounds} {'round' if rounds == 1 else 'rounds'} of {format_code(format_command(record))}"


def _find_load(record: ComparisonRecord) -> str:
    """Return whether each library had a share of its own capacity; a given rate is the same for all."""
    changed, _ = parse_changes(record.scenario.changes)
    return "own" if record.load == "own" and "rate" not in changed.get("producers", {}) else "common"


def _carried_out(record: ComparisonRecord, name: str) -> list[ComparedRun]:
    return [run for run in record.runs if run.variant == LIBRARY_PREFIX + name and run.status == "completed" and run.folder]
