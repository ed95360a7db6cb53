"""What the terminal shows of a comparison: who is first, what else differs, and what to do. Fits 120 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stallbench.comparison.formatting import (
    describe_agreement,
    describe_significance,
    format_difference,
    format_median,
    format_spread,
)
from stallbench.comparison.record import ComparisonRecord
from stallbench.comparison.report import find_notes
from stallbench.comparison.results import Results
from stallbench.comparison.table import OwnTable, make_own_table

_WIDTH = 120
_VARIANTS_BESIDE = 5
"""The reference, in each of several tables: more do not fit."""
_COLOURS = {"better": "green", "worse": "red", "works": "green", "delays": "yellow", "makes it worse": "red"}


def print_comparison(record: ComparisonRecord, results: Results, report: str, console: Console | None = None) -> None:
    """Print the ranking, the published figures beside it, all medians, notes and the recommendation; then where the ``report`` is."""
    console = console or _make_console()
    console.print()
    if own := make_own_table(record, results):
        console.print(_own(own))
    console.print(_ranking(results))
    if record.published:
        console.print(_published(record, results))
        for agreement in results.agreements:
            console.print(escape(describe_agreement(agreement)))
    reference, *others = record.names
    for start in range(0, len(others), _VARIANTS_BESIDE):
        console.print(_medians(results, [reference, *others[start : start + _VARIANTS_BESIDE]]))
    for note in find_notes(record, results):
        console.print(f"[yellow]{escape(note)}[/]")
    console.print(f"\n[bold]{escape(results.recommendation)}[/]")
    console.print(f"report: {report}", soft_wrap=True)


def _make_console() -> Console:
    console = Console(highlight=False)
    return Console(highlight=False, width=min(console.width, _WIDTH) if console.is_terminal else _WIDTH)


def _ranking(results: Results) -> Table:
    ranked = results.ranked
    reference = next(iter(ranked.standings))
    table = Table(title=f"{escape(ranked.subject.key)} ({ranked.subject.better} is better)", title_justify="left")
    table.add_column("", justify="right")
    table.add_column("variant", overflow="fold")
    for header in ("median", "from .. to", f"against {reference} (95 %)"):
        table.add_column(header, justify="right")
    table.add_column("real")
    if results.has_words:
        table.add_column("in a word")
    for name in ranked.by_rank:
        standing, judgement = ranked.standings[name], results.judgements.get(name)
        row = [
            str(standing.rank or "–"),
            f"{escape(name)}{' [red](not safe)[/]' if name in results.broken else ''}",
            format_median(standing),
            format_spread(standing),
            format_difference(standing.difference),
            _colour(describe_significance(standing)),
        ]
        word = (judgement.word or f"– {judgement.reason}") if judgement else ""
        table.add_row(*row, *([_colour(word)] if results.has_words else []))
    return table


def _own(own: OwnTable) -> Table:
    table = Table(title="median (from to)", title_justify="left")
    table.add_column("variant", overflow="fold")
    for title in own.titles:
        table.add_column(escape(title), justify="right", overflow="fold")
    for name, cells in own.rows.items():
        table.add_row(escape(name), *cells)
    for name, reason in own.not_run.items():
        table.add_row(escape(name), f"[dim]{escape(reason)}[/]")
    return table


def _published(record: ComparisonRecord, results: Results) -> Table:
    """Return our medians and ranks beside each published column's."""
    ranked = results.ranked
    table = Table(title="beside what was published: figure (rank)", title_justify="left")
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
    """Return the medians of everything that was compared, marked where the difference is real."""
    table = Table(title="medians; + really better, - really worse", title_justify="left")
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


def _colour(word: str) -> str:
    return f"[{_COLOURS[word]}]{word}[/]" if word in _COLOURS else escape(word)
