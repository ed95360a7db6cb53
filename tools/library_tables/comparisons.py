"""A table that compares libraries: which comparisons on disk it shows, and a row of each library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines import EngineName
from stallbench.libraries import Library, find_libraries
from stallbench.report.markdown import format_code
from stallbench.scenario.overlay import parse_changes
from stallbench.studies.comparison.formatting import NOT_RUN
from stallbench.studies.comparison.record import ComparedRun, ComparisonRecord, find_comparison_folders
from stallbench.studies.comparison.report import format_command
from tools.library_tables.allowed_changes import AllowedChanges
from tools.library_tables.columns import Column, LibraryRuns
from tools.library_tables.figures import FOLDER as FIGURES
from tools.library_tables.figures import name_of_figures
from tools.library_tables.library_run import LibraryRun
from tools.library_tables.text import Footnotes, format_heading, read_cells

_LIBRARY = "library"
_FROM = "from"


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

    @property
    def titles(self) -> list[str]:
        """The headings of all columns."""
        return [_LIBRARY, *(column.title for column in self.columns), _FROM]

    def find_comparisons(self, runs: Path) -> tuple[list[ComparisonRecord], list[str]]:
        """Return the comparisons that it shows, the oldest first, and a message for each that may not be shown.

        One that was interrupted counts with its completed runs.
        """
        found, messages = [], []
        for folder in find_comparison_folders(runs):
            record = folder.read()
            scenario = record.scenario
            has_libraries = any(name.startswith(LIBRARY_PREFIX) for name in record.names)
            if scenario.name != self.scenario or record.status == "running" or not has_libraries:
                continue
            if self.load not in ("any", _find_load(record)):
                continue
            if issue := self.allowed.find_issue(scenario.name, scenario.file, scenario.variant, scenario.changes):
                messages.append(f"{record.id} is left out: {issue}")
            else:
                found.append(record)
        return found, messages

    def make(self, comparisons: Sequence[ComparisonRecord], runs: Path, section: str) -> Iterator[str]:
        """Yield the lines: of each library the newest of ``comparisons`` that includes it, or the row that ``section`` has.

        A library that does not run on the table's engine, or that the newest comparison left out, has a row with the reason.
        """
        titles = self.titles
        yield from format_heading(titles)
        footnotes = Footnotes(section)
        kept = read_cells(section)
        for name, library in find_libraries().items():
            title = library.title_and_version
            of_it = [(record, compared) for record in comparisons if (compared := _carried_out(record, name))]
            if self.engine not in library.engines:
                yield _format_reason(titles, title, library.describe_lack_of(self.engine))
            elif lack := self.find_lack(library):
                yield _format_reason(titles, title, f"does not run in this scenario: {lack}")
            elif of_it:
                record, compared = of_it[-1]
                of_runs = [LibraryRun(runs / run.folder) for run in compared if run.folder]
                of_library = LibraryRuns(record=record, compared=compared, runs=of_runs)
                cells = [column.describe(of_library) for column in self.columns]
                yield f"| {title} | {' | '.join(cells)} | {footnotes.refer_to(self._describe(record, len(compared)))} |"
            elif before := kept.get(title):
                cells = [before.get(column, "") for column in titles[1:-1]]
                yield f"| {title} | {' | '.join(cells)} | {footnotes.keep(before[_FROM])} |"
            elif comparisons and (reason := comparisons[-1].left_out.get(LIBRARY_PREFIX + name)):
                origin = footnotes.refer_to(self._describe(comparisons[-1], comparisons[-1].rounds))
                yield _format_reason(titles, title, f"{NOT_RUN}: {reason}", origin)
        if not footnotes:
            yield from ("", "There is no comparison yet.")
        yield from footnotes.lines()

    def _describe(self, record: ComparisonRecord, rounds: int) -> str:
        """Describe a comparison: when it was made, with a link to the figures of its runs, and by which command."""
        began = f"[{record.id.partition('-')[0]}]({FIGURES}/{name_of_figures(self.name, record)})"
        return f"{began}: {rounds} {'round' if rounds == 1 else 'rounds'} of {format_code(format_command(record))}"


def _format_reason(titles: Sequence[str], title: str, reason: str, origin: int | str = "") -> str:
    empty = [""] * (len(titles) - 3)
    return f"| {' | '.join([title, reason, *empty, str(origin)])} |"


def _find_load(record: ComparisonRecord) -> str:
    """Return whether each library had a share of its own capacity; a given rate is the same for all."""
    changed, _ = parse_changes(record.scenario.changes)
    return "own" if record.load == "own" and "rate" not in changed.get("producers", {}) else "common"


def _carried_out(record: ComparisonRecord, name: str) -> list[ComparedRun]:
    return [run for run in record.runs if run.variant == LIBRARY_PREFIX + name and run.status == "completed" and run.folder]
