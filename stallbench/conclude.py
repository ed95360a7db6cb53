"""From a run's records to its report: tables, then verdict, then pages. Reads only the run's folder; can be done
again at any time.
"""

from __future__ import annotations

import os
import subprocess
import sys

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.report import make_report
from stallbench.run_folder import RunFolder
from stallbench.verdicts import RunTables, Verdict, judge

_PIPELINE_TIMEOUT_S = 1800


def conclude(folder: RunFolder, *, master: str = "local[*]") -> Verdict:
    """Make the tables on the Spark ``master``, judge them, and write the report; returns the verdict.

    Raises `NotCarriedOutError` when the pipeline does not come to its end, `BadInputError` if there is nothing left to make tables of.
    """
    if (folder.path / "tables").is_dir() and not folder.events.is_dir():
        raise BadInputError(
            f"{folder.path}: its records were removed after its tables had been made; its page is {folder.path}/report.html"
        )
    _make_tables(folder, master)
    tables = RunTables(folder.path)
    verdict = judge(tables)
    make_report(tables, verdict)
    return verdict


def _make_tables(folder: RunFolder, master: str) -> None:
    """Run the pipeline as a process of its own, so that the JVM's memory is gone when it is done."""
    log = folder.path / "logs" / "pipeline.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as file:
        ended = subprocess.run(
            [sys.executable, "-m", "stallbench.pipeline", str(folder.path), "--master", master],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=_PIPELINE_TIMEOUT_S,
            env=os.environ,
            check=False,
        )
    if ended.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        raise NotCarriedOutError(f"{folder.path}: the pipeline ended with code {ended.returncode}; see {log}:\n{tail}")
