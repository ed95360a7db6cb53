"""Shows observations in the terminal: findings first, the worst at the top, then what every subject shows, then what cannot be seen."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stallbench.observe.formatting import format_age
from stallbench.observe.observer import Observation
from stallbench.observe.subject import Finding, Section, Severity, Unseen

_STYLES = {Severity.CRITICAL: "bold white on red", Severity.WARNING: "bold black on yellow", Severity.NOTE: "bold black on cyan"}
_WIDTH_OF_FILES = 160


class ObserveScreen:
    """Redraws the report on a terminal. Elsewhere (a file, a CI log) it prints the first report, then what changes."""

    def __init__(self, console: Console | None = None) -> None:
        """Print to ``console``; to standard output if it is None."""
        self._console = console or Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = max(self._console.width, _WIDTH_OF_FILES)
        self._live: Live | None = None
        self._last: Observation | None = None
        self._gone = ""

    @property
    def is_redrawn(self) -> bool:
        """Whether a report that is shown can be replaced by the next."""
        return self._live is not None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._live:
            self._live.stop()
            if self._last:
                self._console.print(render(self._last))

    def show(self, observation: Observation, footer: str = "") -> None:
        """Show one observation."""
        if self._live:
            self._live.update(Group(render(observation), Text(footer, style="dim")), refresh=True)
        elif self._last is None:
            self._console.print(render(observation))
        else:
            for line in self._list_changes(observation):
                self._console.print(Text(line), soft_wrap=True)
        self._last = observation if not observation.gone or self._last is None else self._last
        self._gone = observation.gone

    def _list_changes(self, now: Observation) -> list[str]:
        assert self._last is not None, "the first report has been printed"
        stamp = now.at.strftime("%H:%M:%S UTC")
        if now.gone:
            return [f"{stamp}  gone      the server cannot be read: {now.gone}"] if now.gone != self._gone else []
        back = [f"{stamp}  back      the server can be read again"] if self._gone else []
        return [*back, *list_changes(self._last, now)]

    def print(self, observation: Observation) -> None:
        """Print one whole report."""
        self._console.print(render(observation))


def render(observation: Observation) -> RenderableType:
    """Return the whole report."""
    parts: list[RenderableType] = [_head(observation), Text()]
    if observation.gone:
        parts.append(Text.assemble((" GONE ", _STYLES[Severity.CRITICAL]), f" The server cannot be read: {observation.gone}"))
        return Group(*parts)
    if not observation.findings:
        parts += [_nothing_found(observation), Text()]
    for finding in observation.findings:
        parts += [_finding(finding), Text()]
    for section in observation.sections:
        parts += [_section(section), Text()]
    if observation.unseen:
        parts += [Text("Cannot see", style="bold"), *(Padding(_unseen(one), (0, 0, 0, 2)) for one in observation.unseen)]
    return Group(*parts)


def _nothing_found(observation: Observation) -> Text:
    """Return the headline of a report without findings, which is no all-clear if something cannot be seen."""
    nothing = "Nothing that would slow a queue down was found"
    if not observation.unseen:
        return Text(f"{nothing}.", style="bold green")
    return Text(f"{nothing}, but not everything can be seen; the last lines say what is missing.", style="bold yellow")


def list_changes(before: Observation, now: Observation) -> list[str]:
    """Return a line for each finding that is new, worse, or gone."""
    stamp = now.at.strftime("%H:%M:%S UTC")
    old = {(one.subject, one.about): one for one in before.findings}
    new = {(one.subject, one.about): one for one in now.findings}
    lines = [
        f"{stamp}  {one.severity.name.lower():<8}  {one.sentence}" + (f"  To end it: {one.statement}" if one.statement else "")
        for key, one in new.items()
        if key not in old or one.severity < old[key].severity
    ]
    return lines + [f"{stamp}  over      {one.sentence}" for key, one in old.items() if key not in new]


def _head(observation: Observation) -> Text:
    took = f", read in {1e3 * observation.took_s:.0f} ms" if observation.took_s else ""
    return Text.assemble((observation.title or "stallbench observe", "bold"), (f"   {observation.at:%H:%M:%S} UTC{took}", "dim"))


def _finding(finding: Finding) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    lines = [Text(finding.sentence, style="bold" if finding.severity is Severity.CRITICAL else "")]
    if finding.because:
        lines.append(Text(f"{finding.because[0].upper()}{finding.because[1:]}."))
    if finding.statement:
        where = f" ({finding.where})" if finding.where else ""
        label = "To find it" if finding.only_shows else "To end it"
        lines.append(Text.assemble((f"{label}{where}: ", "dim"), (finding.statement, "bold cyan")))
    if finding.caution:
        lines.append(Text(f"  which {finding.caution}", style="dim"))
    for way in finding.other_ways:
        where = f" ({way.where})" if way.where else ""
        lines.append(Text.assemble((f"Or{where}: ", "dim"), (way.statement, "bold cyan")))
        lines.append(Text(f"  which {way.caution}", style="dim"))
    table.add_row(Text(f" {finding.severity.name} ", style=_STYLES[finding.severity]), Group(*lines))
    return table


def _section(section: Section) -> RenderableType:
    parts: list[RenderableType] = [Text(section.title, style="bold")]
    if section.rows:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=True, header_style="dim")
        for number, column in enumerate(section.columns):
            values = [row[number] for row in section.rows]
            table.add_column(column, justify="right" if _are_figures(values) else "left", overflow="fold")
        for row in section.rows:
            table.add_row(*(Text(value) for value in row))
        parts.append(table)
    parts += [Padding(Text(sentence), (0, 0, 0, 2)) for sentence in section.sentences]
    return Group(*parts)


def _are_figures(values: Iterable[str]) -> bool:
    return all(
        not value or value[0].isdigit() or value[0] in "+-?" or value.startswith(("at least", "about", "little"))
        for value in values
    )


def _unseen(one: Unseen) -> Text:
    remedy = (f"  To see it: {one.remedy}", "cyan") if one.remedy else ""
    return Text.assemble(f"{one.what}: {one.why}.", remedy)


def describe_pace(pause_s: float) -> str:
    """Return the last line on a terminal."""
    return f"next reading in {format_age(pause_s)}; Ctrl-C ends"
