"""Shows observations in the terminal: each queue in a line, then the findings, the worst first; all figures only if they are asked for.

A statement is on a line of its own that is never broken, so that it can be copied from any terminal and any file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from stallbench.base.number_text import format_plural
from stallbench.console import VisibleConsole
from stallbench.observe.changes import find_changes
from stallbench.observe.diagnostic import Finding, NotVisible, Section, Severity
from stallbench.observe.formatting import capitalize_first, format_age
from stallbench.observe.observer import Observation

_STYLES = {Severity.CRITICAL: "bold white on red", Severity.WARNING: "bold black on yellow", Severity.NOTE: "bold black on cyan"}
_WIDTH_OF_FILES = 160
_MOST_SUMMARIZED = 5
_NAME_WIDTH = max(len(severity.name) for severity in Severity)
_INDENTATION = _NAME_WIDTH + 3
_REST = "All figures (holders of the horizon, tables, locks, statements, replication, connections): add --all."


class ObserveScreen:
    """Redraws the report on a terminal. Elsewhere (a file, a CI log) it prints the first report, then what changes."""

    def __init__(self, console: Console | None = None, *, shows_all: bool = False) -> None:
        """Print to ``console``; to standard output if it is None. ``shows_all``: all figures, too, not only the findings."""
        self._console = console or VisibleConsole(highlight=False)
        if not self._console.is_terminal:
            self._console.width = max(self._console.width, _WIDTH_OF_FILES)
        self._shows_all = shows_all
        self.is_redrawn = False
        """Whether a report that is shown can be replaced by the next."""
        self._last: Observation | None = None
        self._gone = ""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self.is_redrawn = True
            self._console.set_alt_screen(True)
            self._console.show_cursor(False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self.is_redrawn:
            self._console.show_cursor(True)
            self._console.set_alt_screen(False)
            if self._last:
                self.print(self._last)

    def show(self, observation: Observation, footer: str = "") -> None:
        """Show one observation."""
        if self.is_redrawn:
            self._draw(render(observation, shows_all=self._shows_all), footer)
        elif self._last is None:
            self.print(observation)
        else:
            for line in self._list_changes(observation):
                self._console.print(Text(line), soft_wrap=True)
        self._last = observation if not observation.gone or self._last is None else self._last
        self._gone = observation.gone

    def _draw(self, report: RenderableType, footer: str) -> None:
        """Replace what the terminal shows, as far as its lines reach."""
        width, height = self._console.size
        shown, left = list[Segment](), height - 1
        lines = list(Segment.split_lines(self._console.render(report)))
        for number, line in enumerate(lines):
            left -= max(1, -(-Segment.get_line_length(line) // width))
            if left < 0:
                footer = f"{len(lines) - number} more lines do not fit; {footer}"
                break
            shown += [*line, Segment.line()]
        self._console.control(Control.home(), Control.clear())
        self._console.print(
            Segments(shown), Text(footer, style="dim", no_wrap=True, overflow="ellipsis"), end="", sep="", crop=False
        )

    def _list_changes(self, now: Observation) -> list[str]:
        assert self._last is not None, "the first report has been printed"
        stamp = now.at.strftime("%H:%M:%S UTC")
        if now.gone:
            return [f"{stamp}  gone      the server cannot be read: {now.gone}"] if now.gone != self._gone else []
        back = [f"{stamp}  back      the server can be read again"] if self._gone else []
        return [*back, *list_changes(self._last, now)]

    def print(self, observation: Observation) -> None:
        """Print one whole report."""
        report = render(observation, shows_all=self._shows_all)
        if self._console.is_terminal:
            self._console.print(report, crop=False)
            return
        with self._console.capture() as capture:
            self._console.print(report, crop=False)
        # Rich fills the lines of a column with blanks up to its width.
        self._console.file.writelines(f"{line.rstrip(' ')}\n" for line in capture.get().removesuffix("\n").split("\n"))
        self._console.file.flush()


def render(observation: Observation, *, shows_all: bool = False) -> RenderableType:
    """Return the report. Print it without cropping: the lines of statements may be longer than the terminal is wide."""
    parts: list[RenderableType] = [_head(observation)]
    if observation.gone:
        gone = Text.assemble((" GONE ", _STYLES[Severity.CRITICAL]), f" The server cannot be read: {observation.gone}")
        return Group(*parts, Text(), gone)
    summaries = [line for section in observation.sections for line in section.summary]
    more = len(summaries) - _MOST_SUMMARIZED
    parts += [
        *map(Text, summaries[:_MOST_SUMMARIZED]),
        *([Text(f"and {format_plural(more, 'more queue')}")] if more > 0 else []),
        Text(),
    ]
    not_visible = [one for one in observation.not_visible if one.could_change_the_answer or shows_all]
    if not observation.findings:
        parts += [_nothing_found(not_visible), Text()]
    for finding in observation.findings:
        parts += [*_finding(finding), Text()]
    for section in observation.sections:
        if shows_all and not section.says_nothing:
            parts += [_section(section), Text()]
    if not_visible:
        parts += [Text("Cannot see", style="bold"), *(part for one in not_visible for part in _unseen(one)), Text()]
    return Group(*parts[:-1] if shows_all else (*parts, Text(_REST, style="dim")))


def _nothing_found(not_visible: list[NotVisible]) -> Text:
    """Return the headline of a report without findings, which is no all-clear if something that could be the cause cannot be seen."""
    nothing = "Nothing that would slow a queue down was found"
    if not not_visible:
        return Text(f"{nothing}.", style="bold green")
    return Text(f"{nothing} in what can be seen from here. What cannot be seen is below.", style="bold yellow")


def list_changes(before: Observation, now: Observation) -> list[str]:
    """Return a line for each finding that is new, worse, or gone."""
    stamp = now.at.strftime("%H:%M:%S UTC")
    return [
        f"{stamp}  over      {one.finding.sentence}"
        if one.kind == "ended"
        else f"{stamp}  {one.finding.severity.name.lower():<8}  {one.finding.sentence}"
        + (f"  To end it: {one.finding.statement}" if one.finding.statement else "")
        for one in find_changes(before.findings, now.findings)
    ]


def _head(observation: Observation) -> Text:
    took = f", read in {1e3 * observation.took_s:.0f} ms" if observation.took_s else ""
    return Text.assemble((observation.title or "stallbench observe", "bold"), (f"   {observation.at:%H:%M:%S} UTC{took}", "dim"))


def _finding(finding: Finding) -> Iterator[RenderableType]:
    """Yield what is wrong and what that means beside the severity; the statement that ends it, and what else it does, below."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, width=_INDENTATION - 1)
    table.add_column()
    sentence = Text(finding.sentence, style="bold" if finding.severity is Severity.CRITICAL else "")
    table.add_row(Text(f" {finding.severity.name} ", style=_STYLES[finding.severity]), sentence)
    yield table
    if finding.because:
        yield _indented(f"{capitalize_first(finding.because)}.")
    if finding.statement:
        yield from _way("To find it" if finding.only_shows else "To end it", finding.statement, finding.where, finding.caution)
    for way in finding.other_ways:
        yield from _way("Or", way.statement, way.where, way.caution)


def _way(label: str, statement: str, where: str, caution: str) -> Iterator[RenderableType]:
    yield _indented(f"{label}{f' ({where})' if where else ''}:", "dim")
    if statement:
        yield _statement(statement)
    if caution:
        yield _indented(f"which {caution}" if statement else caution, "dim")


def _indented(text: str, style: str = "") -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, _INDENTATION), expand=False)


def _statement(text: str) -> Text:
    """Return a line that is never broken. A terminal that is too narrow shows it in two, and copies it as one."""
    return Text(f"{'':{_INDENTATION}}{text}", style="bold cyan", no_wrap=True, overflow="ignore")


def _section(section: Section) -> RenderableType:
    parts: list[RenderableType] = [Text(section.title, style="bold")]
    columns = section.columns[:-1] if section.has_statements else section.columns
    if section.rows:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=True, header_style="dim")
        for number, column in enumerate(columns):
            values = [row[number] for row in section.rows]
            table.add_column(Text(column), justify="right" if _are_figures(values) else "left", overflow="fold")
        for row in section.rows:
            table.add_row(*(Text(value) for value in row[: len(columns)]))
        parts.append(table)
    if section.has_statements:
        for row in section.rows:
            parts += [Padding(Text(f"To end {row[0]}:", style="dim"), (0, 0, 0, 2), expand=False), _statement(row[-1])]
    parts += [Padding(Text(sentence), (0, 0, 0, 2), expand=False) for sentence in section.sentences]
    return Group(*parts)


def _are_figures(values: Iterable[str]) -> bool:
    return all(
        not value or value[0].isdigit() or value[0] in "+-?" or value.startswith(("at least", "about", "little"))
        for value in values
    )


def _unseen(one: NotVisible) -> Iterator[RenderableType]:
    yield Padding(
        Text(f"{one.what}: {one.why}." + (f" To see it{' the next time' if one.is_of_next_time else ''}:" if one.remedy else "")),
        (0, 0, 0, 1),
        expand=False,
    )
    if one.remedy:
        yield _statement(one.remedy)


def describe_pace(pause_s: float) -> str:
    """Return the last line on a terminal."""
    return f"next reading in {format_age(pause_s)}; Ctrl-C ends"
