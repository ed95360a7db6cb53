"""The figures of each run behind a table in docs/libraries.md, as a file beside the page: the folders of the runs are not kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from stallbench.base.storage.atomic_file import replace_file
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.studies.comparison.record import ComparisonRecord
from tools.library_tables.columns import Column, LibraryRuns
from tools.library_tables.library_run import LibraryRun

FOLDER = Path("results") / "library-runs"
"""Of the files, from the folder of the page."""
_OF_RUN = ("library", "round", "seed", "run", "server", "verdict", "reason")


def name_of_figures(table: str, record: ComparisonRecord) -> str:
    """Return the file's name for a comparison that ``table`` shows."""
    return f"{table}-{record.id.partition('-')[0]}.csv"


def write_figures(folder: Path, table: str, record: ComparisonRecord, runs: Path, columns: Sequence[Column]) -> None:
    """Write a line for each completed run of a library in the comparison, with what each of ``columns`` says of this run alone.

    The capacity is measured once for all runs of a library. Cells are text as in the table, ``a → b`` and † included.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_OF_RUN, *(column.title for column in columns)])
    writer.writerows(_list_runs(record, runs, columns))
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / name_of_figures(table, record), text.getvalue())


def remove_unlinked_figures(folder: Path, pages: Sequence[Path]) -> None:
    """Remove the files to which none of ``pages`` links any more, because newer runs have replaced the rows."""
    text = "".join(page.read_text() for page in pages)
    for path in folder.glob("*.csv"):
        if path.name not in text:
            path.unlink()


def _list_runs(record: ComparisonRecord, runs: Path, columns: Sequence[Column]) -> Iterator[list[object]]:
    for compared in record.runs:
        if not (compared.variant.startswith(LIBRARY_PREFIX) and compared.status == "completed" and compared.folder):
            continue
        run = LibraryRun(runs / compared.folder)
        alone = LibraryRuns(record=record, compared=[compared], runs=[run])
        made = run.tables.record
        title = f"{made.queue.library.title} {made.queue.library.version}" if made.queue.library else run.name
        yield [
            title,
            compared.round,
            compared.seed,
            compared.folder,
            " ".join(dict.fromkeys(f"{server.engine} {server.version}" for server in made.servers)),
            compared.verdict or "",
            compared.reason,
            *(column.describe(alone) for column in columns),
        ]
