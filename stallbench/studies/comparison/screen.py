"""Prints a comparison to the terminal: the ranking, the other differences, and what to do. Fits 120 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stallbench.console import TABLE_WIDTH, VisibleConsole
from stallbench.report.terminal import format_words
from stallbench.studies.comparison.formatting import (
    ScenarioTable,
    describe_adjustment,
    describe_agreement,
    describe_significance,
    format_difference,
    format_median,
    format_p,
    format_spread,
    make_scenario_table,
)
from stallbench.studies.comparison.notes import find_notes
from stallbench.studies.comparison.record import ComparisonRecord
from stallbench.studies.comparison.results import Results
from stallbench.studies.regressions import print_regressions

_VARIANTS_PER_TABLE = 5
"""Beside the reference; more do not fit."""
_COLOURS = {
    "better": "green",
    "worse": "red",
    "works": "green",
    "helps": "green",
    "delays": "yellow",
    "reduces": "yellow",
    "undecided": "yellow",
    "makes it worse": "red",
}


def print_comparison(record: ComparisonRecord, results: Results, report: str, console: Console | None = None) -> None:
    """Print the ranking, the published figures, all medians, the notes, the recommendation and the path of the ``report``."""
    console = console or _make_console()
    console.print()
    if table := make_scenario_table(record, results):
        console.print(_show_scenario_table(table))
    if results.upgrades:
        console.print(_upgrades(results))
    console.print(_ranking(results))
    if record.published:
        console.print(_published(record, results))
        for agreement in results.agreements:
            console.print(escape(describe_agreement(agreement)))
    reference, *others = record.names
    for start in range(0, len(others), _VARIANTS_PER_TABLE):
        console.print(_medians(results, [reference, *others[start : start + _VARIANTS_PER_TABLE]]))
    if adjustment := describe_adjustment(results):
        console.print(f"[dim]{escape(adjustment)}[/]")
    for note in find_notes(record, results):
        console.print(f"[yellow]{escape(note)}[/]")
    print_regressions(record.regressions, console)
    console.print(f"\n{format_words(record.words)}")
    console.print(f"[bold]{escape(results.recommendation)}[/]")
    console.print(f"report: {report}", soft_wrap=True)


def _make_console() -> Console:
    console = VisibleConsole(highlight=False)
    return VisibleConsole(highlight=False, width=min(console.width, TABLE_WIDTH) if console.is_terminal else TABLE_WIDTH)


def _ranking(results: Results) -> Table:
    ranked = results.ranked
    reference = next(iter(ranked.standings))
    table = Table(title=f"{escape(ranked.subject.key)} ({ranked.subject.better} is better)", title_justify="left")
    table.add_column("", justify="right")
    table.add_column("variant", overflow="fold")
    for header in ("median", "from .. to", f"against {reference} (95 %)", "p (Holm)"):
        table.add_column(header, justify="right")
    table.add_column("significant")
    if results.has_assessments:
        table.add_column("outcome")
    for name in ranked.by_rank:
        standing, assessment = ranked.standings[name], results.assessments.get(name)
        row = [
            str(standing.rank or "–"),
            escape(name)
            + (
                " [red](not safe)[/]"
                if name in results.unsafe
                else " (not shown to be safe)"
                if name in results.undecided
                else ""
            ),
            format_median(standing),
            format_spread(standing),
            format_difference(standing.difference),
            format_p(standing.difference.adjusted_p if standing.difference else None),
            _colour(describe_significance(standing)),
        ]
        outcome = (assessment.outcome or f"– {assessment.reason}") if assessment else ""
        table.add_row(*row, *([_colour(outcome)] if results.has_assessments else []))
    return table


def _upgrades(results: Results) -> Table:
    table = Table(title=f"upgrades, in {escape(results.ranked.subject.key)}", title_justify="left")
    table.add_column("upgrade")
    for header in ("change", "difference (95 %)", "p (Holm)"):
        table.add_column(header, justify="right")
    table.add_column("answer")
    for each in results.upgrades:
        p = format_p(each.difference.adjusted_p if each.difference else None)
        table.add_row(each.title, each.change, format_difference(each.difference), p, _colour(each.answer))
    return table


def _show_scenario_table(shown: ScenarioTable) -> Table:
    table = Table(title="median (from to)", title_justify="left")
    table.add_column("variant", overflow="fold")
    for title in shown.titles:
        table.add_column(escape(title), justify="right", overflow="fold")
    for name, cells in shown.rows.items():
        table.add_row(escape(name), *cells)
    for name, reason in shown.not_run.items():
        table.add_row(escape(name), f"[dim]{escape(reason)}[/]")
    return table


def _published(record: ComparisonRecord, results: Results) -> Table:
    """Return the medians and ranks here, beside those of each published column."""
    ranked = results.ranked
    table = Table(title="published figures: figure (rank)", title_justify="left")
    table.add_column("variant", overflow="fold")
    for header in ("here", *record.published):
        table.add_column(escape(header), justify="right", overflow="fold")
    for name in ranked.by_rank:
        standing = ranked.standings[name]
        theirs = [
            f"{record.published[agreement.where][name]:,g} ({agreement.ranks[name]})" if name in agreement.ranks else "–"
            for agreement in results.agreements
        ]
        table.add_row(escape(name), f"{format_median(standing)} ({standing.rank or '–'})", *theirs)
    return table


def _medians(results: Results, names: Sequence[str]) -> Table:
    """Return the medians of all subjects, marked where the difference is significant."""
    table = Table(title="medians; + significantly better, - significantly worse", title_justify="left")
    table.add_column("metric", overflow="fold")
    for name in names:
        table.add_column(escape(name), justify="right", overflow="fold")
    marks = {"better": "[green]+[/]", "worse": "[red]-[/]"}
    for each in results.compared:
        cells = [
            (format_median(each.standings[name]), marks.get(describe_significance(each.standings[name]), " ")) for name in names
        ]
        table.add_row(escape(each.subject.key), *(f"{median} {mark}" for median, mark in cells))
    return table


def _colour(text: str) -> str:
    return f"[{_COLOURS[text]}]{text}[/]" if text in _COLOURS else escape(text)
