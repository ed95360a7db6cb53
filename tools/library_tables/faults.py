"""The table in docs/libraries-in-faults.md: what became of the jobs and workers of each library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stallbench.evidence.document import EarlierTable
from stallbench.evidence.staleness import OF_EARLIER_VERSIONS
from stallbench.libraries import find_libraries
from stallbench.report.markdown import format_code
from stallbench.scenario.model import Scenario
from tools.generated_blocks import Footnotes, format_heading
from tools.library_tables.allowed_changes import AllowedChanges
from tools.library_tables.library_run import LibraryRun
from tools.published import LINK, Published, link_run

_LOGGED = {"database.settings.log_statement": "all"}
"""The server's log then shows which statements about a job arrived."""
_OWN_LOAD = AllowedChanges(harmless=_LOGGED, deviations=("producers.rate", "workers.count"))
"""Not every library can carry the scenario's load, or has enough connections for as many workers. What the fault does must not differ."""
_LOAD_OF_ALL = AllowedChanges(stated={"producers.rate": 30}, harmless=_LOGGED, deviations=("workers.count",))
"""A load that every library can carry, as the page states: most cannot carry the scenario's."""
FAULTS: Mapping[str, AllowedChanges] = {
    "worker-crash": _OWN_LOAD,
    "rolling-deploy": _OWN_LOAD,
    "server-crash": _OWN_LOAD,
    "failover": _OWN_LOAD,
    "network-partition": _LOAD_OF_ALL,
    "pgbouncer": _LOAD_OF_ALL,
    "pgbouncer --variant from_the_start": AllowedChanges(
        variant="from_the_start", stated={"producers.rate": 30}, harmless=_LOGGED, deviations=("workers.count",)
    ),
    "stuck-listener": _LOAD_OF_ALL,
}
"""The columns of the table, as words of a command, and with which changes their runs are shown."""


def find_fault_runs(published: Published) -> tuple[dict[tuple[str, str], LibraryRun], list[str]]:
    """Return the run of each library in each column of `FAULTS` that is to be shown, by both names, and a message for each run that may not.

    The newest is shown, but none with deviations if one without is published.
    """
    found: dict[tuple[str, str], LibraryRun] = {}
    messages = []
    for stored in published.runs():
        run = LibraryRun(stored)
        record, scenario = stored.record, stored.record.scenario
        column = name_column(scenario)
        if not run.name or column not in FAULTS:
            continue
        allowed, before = FAULTS[column], found.get((run.name, column))
        deviations = allowed.find_deviations(scenario.changes)
        if issue := allowed.find_issue(scenario.name, scenario.file, scenario.variant, scenario.changes):
            messages.append(f"{record.id} is left out: {issue}")
        elif deviations and before is not None and not allowed.find_deviations(before.stored.record.scenario.changes):
            messages.append(f"{record.id} is left out: it changes {', '.join(deviations)}, and there is a run without")
        else:
            found[run.name, column] = run
    return found, messages


def name_column(scenario: Scenario) -> str:
    """Return the column of `FAULTS` for a run: its scenario, with the variant if that has a column of its own."""
    of_variant = f"{scenario.name} --variant {scenario.variant}"
    return of_variant if of_variant in FAULTS else scenario.name


def make_fault_table(published: Published, found: Mapping[tuple[str, str], LibraryRun]) -> Iterator[str]:
    """Yield the lines of the table; a cell without a run has what an earlier version published."""
    footnotes = Footnotes()
    earlier = {column: table for column in FAULTS if (table := published.earlier(f"libraries-{_slug(column)}"))}
    rows = list(_make_rows(published, found, earlier, footnotes))
    if earlier:
        links = ", ".join(f"[`{column}`]({LINK}/earlier/{table.table}.json)" for column, table in earlier.items())
        marked = f"a cell with *{_OF_EARLIER}*" if footnotes else "all of this"
        yield from (f"*Stale: {marked} was {OF_EARLIER_VERSIONS}.* Date, command and figures of each run: {links}.", "")
    yield from footnotes.add_to(rows if footnotes else [row.replace(f"*{_OF_EARLIER}:* ", "") for row in rows])


def _make_rows(
    published: Published, found: Mapping[tuple[str, str], LibraryRun], earlier: Mapping[str, EarlierTable], footnotes: Footnotes
) -> Iterator[str]:
    yield from format_heading(["library", *(f"`{column}`" for column in FAULTS)])
    before = {(row.name, column): row.cells[column] for column, table in earlier.items() for row in table.rows}
    for name, library in find_libraries().items():
        cells = []
        for column in FAULTS:
            if run := found.get((name, column)):
                document = run.stored.document
                source = f"{link_run(document)}: {format_code(document.command)}."
                cells.append(f"{run.describe_outcome()} ({footnotes.refer_to(source, published.find_reasons(document))})")
            elif cell := before.get((library.title_and_version, column)):
                cells.append(f"*{_OF_EARLIER}:* {cell}")
            else:
                cells.append("")
        if any(cells):
            yield f"| {library.title_and_version} | {' | '.join(cells)} |"


def _slug(column: str) -> str:
    return column.replace(" --variant ", "-")


_OF_EARLIER = "earlier"
"""Marks a cell that an earlier version published."""
