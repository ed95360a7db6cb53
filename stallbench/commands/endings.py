"""The last steps of commands: make the report from the records, print the result, and exit with its code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from stallbench.base.storage.address import AnyPath
from stallbench.errors import (
    EXIT_FAIL,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    NotCarriedOutError,
    StallbenchError,
)
from stallbench.pipeline.spark_options import SparkOptions
from stallbench.run.folder import RunFolder, remove_run_folder
from stallbench.shell_command import format_shell_command
from stallbench.visible_text import say

_KEPT_TEXT_BYTES = 1000**3
"""Event logs up to this size are kept by default: about 14 million events."""

if TYPE_CHECKING:
    from upath import UPath

    from stallbench.pipeline.process import PipelineProcess
    from stallbench.run.view import RunView
    from stallbench.studies.study import StudyRecord


def conclude_and_exit(
    folder: AnyPath,
    spark: SparkOptions | None = None,
    *,
    view: RunView | None = None,
    pipeline: PipelineProcess | None = None,
    keep_text: bool | None = True,
    move_to: UPath | None = None,
    is_restored: bool = True,
) -> NoReturn:
    """Make the tables, verdict and report of a run, print its first facts before and the verdict after that, and exit with its code.

    ``spark``: which Spark makes the tables; if None, one on this machine. ``view``: of the run, if it has just ended. ``pipeline``: a process that
    was started for its tables. ``keep_text``: whether its event logs stay beside the sealed records; if None, their size decides. ``move_to``: the
    address of the folder to which the run is then moved. If that fails, the run stays where it is, and the exit code of a run that passed is that of
    `NotCarriedOutError`. So it is if something of the run stays on external servers (``is_restored``), of which the run has said what and why.
    """
    from stallbench.pipeline.process import make_tables
    from stallbench.report.conclusion import conclude, conclude_at
    from stallbench.report.meanwhile import shown_meanwhile
    from stallbench.report.terminal import print_verdict
    from stallbench.run.record import read_record
    from stallbench.run.view import RunView

    spark = spark or SparkOptions()
    is_where_it_should_be = True
    if isinstance(folder, Path):
        make = pipeline.make_tables if pipeline else partial(make_tables, spark=spark)

        def make_and_show(run: RunFolder) -> None:
            with shown_meanwhile(run.path, shown):
                make(run)
            shown.say("the tables are made; judging the run and writing its report")

        with view or RunView() as shown:
            verdict = conclude(RunFolder(folder), make_and_show)
        _keep_or_remove_event_logs(folder, keep_text)
        if move_to is not None:
            is_where_it_should_be = move_run(folder, move_to)
            folder = move_to / folder.name if is_where_it_should_be else folder
    else:
        verdict = conclude_at(folder, spark)
    print_verdict(verdict, read_record(folder / "run.json"), shorten(folder / "report.html"))
    if verdict.status != "completed":
        sys.exit(EXIT_INTERRUPTED if verdict.status == "aborted" else NotCarriedOutError.exit_code)
    if verdict.verdict != "pass":
        sys.exit(EXIT_FAIL)
    sys.exit(EXIT_PASS if is_where_it_should_be and is_restored else NotCarriedOutError.exit_code)


def _keep_or_remove_event_logs(folder: Path, keep: bool | None) -> None:
    """Remove the event logs of a run, if they are not to be kept, once the sealed records are found to hold every line; prints what was done."""
    from stallbench.records.sealing import remove_event_logs

    if keep is None:
        keep = sum(log.stat().st_size for log in (folder / "events").glob("*.csv")) <= _KEPT_TEXT_BYTES
    if keep:
        return
    try:
        freed = remove_event_logs(folder)
    except OSError as error:
        say(f"the event logs are kept: {error.strerror or error}", to=sys.stderr)
    else:
        say(f"event logs of {freed / 1e6:,.1f} MB are removed: sealed/ holds every line of them (--keep-text keeps them)")


def move_run(folder: Path, runs: UPath) -> bool:
    """Upload a run to the folder ``runs`` and remove it here; returns whether that succeeded, and prints the reason if not."""
    from stallbench.run.upload import upload

    say(f"uploading the run to {runs / folder.name}", to=sys.stderr, flush=True)
    kept = f"the run is kept in {shorten(folder)}; repeat by: {format_shell_command(['stallbench', 'upload', shorten(folder), runs])}"
    try:
        upload(folder, runs / folder.name)
    except StallbenchError as error:
        say(f"the upload failed: {error}; {kept}", to=sys.stderr)
        return False
    except KeyboardInterrupt:
        say(f"the upload was interrupted; {kept}", to=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    remove_run_folder(folder)
    return True


def conclude_study_and_exit(path: Path, record: StudyRecord | None = None) -> NoReturn:
    """Make the results and pages of the study in a folder, print the results, and exit with its code.

    ``record``: of a study that has just ended. If the disk is full, the results are printed all the same, and the code is that of `NotCarriedOutError`.
    """
    from stallbench.report.run_index import renew_index
    from stallbench.studies.kind import read_kind

    conclusion = read_kind(path).conclude(path, record)
    why_unwritten = ""
    try:
        conclusion.write()
    except OSError as error:
        why_unwritten = error.strerror or str(error)
    if record is not None:
        renew_index(path.parent)
    conclusion.show(shorten(path / "report.html"))
    if why_unwritten:
        command = format_shell_command(["stallbench", "report", shorten(path)])
        say(f"{shorten(path)}: the report could not be written: {why_unwritten}; write it later by: {command}", to=sys.stderr)
        sys.exit(NotCarriedOutError.exit_code)
    sys.exit(conclusion.record.exit_code)


@contextmanager
def index_renewed(runs: Path) -> Iterator[None]:
    """Make the page of all runs anew when the block ends, however it ends: a run that failed is in it, too."""
    from stallbench.report.run_index import renew_index

    try:
        yield
    finally:
        renew_index(runs)


def shorten(path: AnyPath) -> str:
    """Return ``path`` relative to the current folder, if that is shorter; an address as it is."""
    if not isinstance(path, Path):
        return str(path)
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)
