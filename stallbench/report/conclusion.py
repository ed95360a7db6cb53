"""Makes a run's tables, verdict and pages from its records. Reads only the run's folder, and can be repeated at any time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stallbench.base.storage.address import AnyPath, address_errors
from stallbench.base.storage.private import require_plain
from stallbench.errors import BadInputError
from stallbench.pipeline.process import make_tables, make_tables_at
from stallbench.pipeline.spark_options import SparkOptions
from stallbench.records.sealing import SEALED, WITHOUT_TEXT
from stallbench.report import make_report
from stallbench.run.folder import RunFolder
from stallbench.run.record import read_record
from stallbench.verdicts import RunTables, Verdict, judge


def conclude(folder: RunFolder, make_tables: Callable[[RunFolder], None] = make_tables) -> Verdict:
    """Make the tables by ``make_tables``, judge them, and write the report; returns the verdict.

    Raises `NotCarriedOutError` when the pipeline fails, `BadInputError` if the records were removed or the folder has another format,
    `UntrustedError` if there is a link in it, which a member of the group of ``--group`` can make during the run.
    """
    require_plain(folder.path)
    return _conclude(folder.path, partial(make_tables, folder))


def conclude_at(folder: AnyPath, spark: SparkOptions) -> Verdict:
    """Make the tables by ``spark``, the verdict and the report of a run at an address, all of them there; returns the verdict.

    Raises as `conclude` and `stallbench.base.storage.address.address_errors` do.
    """
    with address_errors(str(folder)):
        return _conclude(folder, partial(make_tables_at, folder, spark))


def _conclude(folder: AnyPath, make_tables: Callable[[], None]) -> Verdict:
    is_without_records = not (folder / "events").is_dir() and not (folder / SEALED / WITHOUT_TEXT).is_file()
    if is_without_records and (folder / "tables").is_dir():
        raise BadInputError(
            f"{folder}: its records were removed after its tables had been made; its report is {folder}/report.html"
        )
    read_record(folder / "run.json")  # a folder in another format is refused before the pipeline starts
    make_tables()
    tables = RunTables(folder)
    verdict = judge(tables)
    make_report(tables, verdict)
    return verdict
