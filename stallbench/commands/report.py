"""`stallbench report`: makes the report of a run or a study again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stallbench.base.storage.address import AnyPath, is_address
from stallbench.commands.endings import conclude_and_exit, conclude_study_and_exit, index_renewed, shorten
from stallbench.commands.extra import describe_missing_extra, has_bench
from stallbench.commands.options import (
    AgainstOption,
    MasterOption,
    RunsOption,
    SparkConfOption,
    ToleranceOption,
    find_against,
)
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.pipeline.spark_options import LOCAL, read_spark_options
from stallbench.run.folder import RUNS, find_run_at, find_run_folder, find_study_folder, require_own
from stallbench.visible_text import say

if TYPE_CHECKING:
    from stallbench.verdicts.baseline.against import BaselineChoice


def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="The folder or the name of a run or of a study of several runs (comparison, matrix, limit, soak, torture); `latest` is the newest run. "
            "Or the address of a run, like s3://BUCKET/RUNS/RUN.",
        ),
    ],
    master: MasterOption = LOCAL,
    spark_conf: SparkConfOption = None,
    against: AgainstOption = None,
    tolerance: ToleranceOption = None,
    runs: RunsOption = RUNS,
) -> None:
    """Make the report of a run or of a study of several runs again, from its folder.

    The tables and the verdict of a run are computed again, too. The report of a study is made from the tables of its runs. All files of a
    run at an address are read and written there. In a light installation, it only says where the page is that was made before.

    Exit codes: 0 it passes, 1 it fails or is unknown, 2 bad input, 3 it could not be carried out, or the report could not be made, 130 it was
    interrupted.

    For example:

        stallbench report latest
        stallbench report reports/runs/20261120T101500Z-longtx
        stallbench report s3a://bucket/runs/20261120T101500Z-longtx --master spark://spark.test:7077
        stallbench report latest --against baseline.json
        stallbench report latest --master spark://spark.test:7077 --spark-conf spark.executor.memory=4g
    """
    if not has_bench():
        _name_page(run, runs, is_made_anew=is_address(run) or against is not None)
        return
    spark = read_spark_options(master, spark_conf or [])
    compared = find_against(against, tolerance, runs)
    if is_address(run):
        at = find_run_at(run)
        _note(at, compared)
        conclude_and_exit(at, spark)
    if (study := find_study_folder(run, runs)) is not None:
        if compared:
            _require_comparable(study)
        require_own(study)
        _note(study, compared)
        with index_renewed(runs):
            conclude_study_and_exit(study)
    path = find_run_folder(run, runs).path
    require_own(path)
    _note(path, compared)
    with index_renewed(runs):
        conclude_and_exit(path, spark)


def _name_page(run: str, runs: Path, *, is_made_anew: bool) -> None:
    """Say where the page is that was made before; raises `NotCarriedOutError` if there is none, or a new one is asked for (``is_made_anew``)."""
    found = None if is_made_anew else find_study_folder(run, runs) or find_run_folder(run, runs).path
    page = found / "report.html" if found else None
    if page is None or not page.is_file():
        raise NotCarriedOutError(describe_missing_extra("stallbench report"))
    say(f"{shorten(page)} was made before; nothing is made again in a light installation")


def _note(folder: AnyPath, compared: BaselineChoice | None) -> None:
    """Write into the folder of a run, a comparison or a soak what it is compared with; without ``--against``, change nothing."""
    if compared:
        from stallbench.verdicts.baseline.against import write_against

        write_against(folder, compared)


def _require_comparable(study: Path) -> None:
    from stallbench.studies.kind import read_kind

    if not (kind := read_kind(study)).has_baseline:
        raise BadInputError(f"--against: a {kind.title} is not compared with a baseline; leave it out")
