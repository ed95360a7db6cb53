"""Makes a run's tables, verdict and pages from its records. Reads only the run's folder, and can be repeated at any time."""

from __future__ import annotations

from collections.abc import Callable

from stallbench.errors import BadInputError
from stallbench.pipeline.process import make_tables
from stallbench.report import make_report
from stallbench.run.folder import RunFolder
from stallbench.run.record import read_record
from stallbench.verdicts import RunTables, Verdict, judge


def conclude(folder: RunFolder, make_tables: Callable[[RunFolder], None] = make_tables) -> Verdict:
    """Make the tables by ``make_tables``, judge them, and write the report; returns the verdict.

    Raises `NotCarriedOutError` when the pipeline fails, `BadInputError` if the records were removed or the folder has another format.
    """
    if (folder.path / "tables").is_dir() and not folder.events.is_dir():
        raise BadInputError(
            f"{folder.path}: its records were removed after its tables had been made; its report is {folder.path}/report.html"
        )
    read_record(folder.record)  # a folder in another format is refused before the pipeline starts
    make_tables(folder)
    tables = RunTables(folder.path)
    verdict = judge(tables)
    make_report(tables, verdict)
    return verdict
