"""The table of faults in docs/libraries.md: what became of the jobs and workers of each library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from stallbench.comparison.library_page import Footnotes, format_heading, read_cells
from stallbench.comparison.library_run import LibraryRun
from stallbench.comparison.library_settings import AllowedChanges
from stallbench.libraries import find_libraries
from stallbench.run.record import RunRecord
from stallbench.scenario.command import format_run_command

FAULTS = ("worker-crash", "rolling-deploy", "server-crash", "failover", "network-partition", "pgbouncer", "stuck-listener")
"""The scenarios of the table."""
ALLOWED = AllowedChanges(shown=("producers.rate", "workers.count"))
"""Not every library can carry the load of every scenario, or has enough connections for as many workers. What the fault does must not differ."""


def find_fault_runs(runs: Path) -> tuple[dict[tuple[str, str], LibraryRun], list[str]]:
    """Return the newest run of each library in each scenario of `FAULTS`, by both names, and a message for each run that may not be shown.

    A run counts if it is completed, or ended because no worker was left.
    """
    found, messages = {}, []
    for path in sorted(runs.glob("*/run.json")):
        run = LibraryRun(path.parent)
        record = run.tables.record
        if not run.name or record.scenario.name not in FAULTS:
            continue
        if not (run.has_tables() if record.status == "completed" else run.has_lost_its_workers()):
            continue
        scenario = record.scenario
        if issue := ALLOWED.find_issue(scenario.name, scenario.file, scenario.variant, scenario.changes):
            messages.append(f"{record.id} is left out: {issue}")
        else:
            found[run.name, scenario.name] = run
    return found, messages


def make_fault_table(found: Mapping[tuple[str, str], LibraryRun], section: str) -> Iterator[str]:
    """Yield the lines of the table; a cell without a run keeps what ``section``, the table on the page, says."""
    titles = [f"`{scenario}`" for scenario in FAULTS]
    yield from format_heading(["library", *titles])
    footnotes = Footnotes(section)
    kept = read_cells(section)
    for name, library in find_libraries().items():
        before = kept.get(library.title_and_version, {})
        cells = []
        for title, scenario in zip(titles, FAULTS, strict=True):
            if run := found.get((name, scenario)):
                number = footnotes.refer_to(_describe(run.tables.record))
                cells.append(f"{run.describe_outcome()} ({number})")
            else:
                cells.append(footnotes.keep_cell(before.get(title, "")))
        if any(cells):
            yield f"| {library.title_and_version} | {' | '.join(cells)} |"
    yield from footnotes.lines()


def _describe(record: RunRecord) -> str:
    return f"{record.id.partition('-')[0]}: `{format_run_command(record.scenario)}`"
