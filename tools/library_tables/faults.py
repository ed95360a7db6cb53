"""The table in docs/libraries-in-faults.md: what became of the jobs and workers of each library."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from stallbench.libraries import find_libraries
from stallbench.report.markdown import format_code
from stallbench.run.record import RunRecord
from stallbench.scenario.command import format_run_command
from stallbench.scenario.model import Scenario
from tools.library_tables.allowed_changes import AllowedChanges
from tools.library_tables.fault_figures import format_began
from tools.library_tables.library_run import LibraryRun
from tools.library_tables.text import Footnotes, format_heading, read_cells

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


def find_fault_runs(runs: Path, section: str) -> tuple[dict[tuple[str, str], LibraryRun], list[str]]:
    """Return the run of each library in each column of `FAULTS` that is to be shown, by both names, and a message for each run that may not.

    A run counts if it is completed, or ended because no worker was left. The newest is shown, but none with deviations if one without is on
    the disk, or in ``section``, the table on the page.
    """
    found: dict[tuple[str, str], LibraryRun] = {}
    messages = []
    for path in sorted(runs.glob("*/run.json")):
        run = LibraryRun(path.parent)
        record = run.tables.record
        scenario = record.scenario
        column = name_column(scenario)
        if not run.name or column not in FAULTS:
            continue
        if not (run.has_tables() if record.status == "completed" else run.has_lost_its_workers()):
            continue
        allowed, before = FAULTS[column], found.get((run.name, column))
        deviations = allowed.find_deviations(scenario.changes)
        published = read_changes(section, run.name, column) if before is None else before.tables.record.scenario.changes
        if issue := allowed.find_issue(scenario.name, scenario.file, scenario.variant, scenario.changes):
            messages.append(f"{record.id} is left out: {issue}")
        elif deviations and published is not None and not allowed.find_deviations(published):
            messages.append(f"{record.id} is left out: it changes {', '.join(deviations)}, and there is a run without")
        else:
            found[run.name, column] = run
    return found, messages


def name_column(scenario: Scenario) -> str:
    """Return the column of `FAULTS` for a run: its scenario, with the variant if that has a column of its own."""
    of_variant = f"{scenario.name} --variant {scenario.variant}"
    return of_variant if of_variant in FAULTS else scenario.name


def read_changes(section: str, name: str, column: str) -> list[str] | None:
    """Return the changes of the run that ``section``, the table on the page, shows for a library; none if it shows no run."""
    cell = read_cells(section).get(find_libraries()[name].title_and_version, {}).get(f"`{column}`", "")
    footnote = Footnotes(section).find(cell)
    if footnote is None:
        return None
    words = shlex.split(footnote.partition("`")[2].rpartition("`")[0])
    return [change for option, change in pairwise(words) if option == "--set"]


def make_fault_table(found: Mapping[tuple[str, str], LibraryRun], section: str) -> Iterator[str]:
    """Yield the lines of the table; a cell without a run keeps what ``section``, the table on the page, says."""
    titles = {column: f"`{column}`" for column in FAULTS}
    yield from format_heading(["library", *titles.values()])
    footnotes = Footnotes(section)
    kept = read_cells(section)
    for name, library in find_libraries().items():
        before = kept.get(library.title_and_version, {})
        cells = []
        for column, title in titles.items():
            if run := found.get((name, column)):
                number = footnotes.refer_to(_describe(run.tables.record))
                cells.append(f"{run.describe_outcome()} ({number})")
            else:
                cells.append(footnotes.keep_cell(before.get(title, "")))
        if any(cells):
            yield f"| {library.title_and_version} | {' | '.join(cells)} |"
    yield from footnotes.lines()


def _describe(record: RunRecord) -> str:
    return f"{format_began(record)}: {format_code(format_run_command(record.scenario))}"
