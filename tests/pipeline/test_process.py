"""The pipeline as a process: what it leaves behind, whether it ends or is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from stallbench.pipeline.failures import NoTableError
from stallbench.pipeline.service import SERVICE_VARIABLE
from stallbench.pipeline.tables import TABLES, read_table
from tests.synthetic_run import SyntheticRun
from tests.waiting import wait_for

PROJECT = Path(__file__).resolve().parents[2]
DEADLINE_S = 180.0

pytestmark = pytest.mark.timeout(600)  # each starts a Java of its own, on a machine that may be busy with others


PIPELINE = ("-m", "stallbench.pipeline")
BENCH = """
import sys
from pathlib import Path
from stallbench.pipeline.process import make_tables
from stallbench.run.folder import RunFolder
make_tables(RunFolder(Path(sys.argv[1])))
"""
"""Starts a pipeline as each command does."""


def start(run_folder: Path, scratch: Path, program: Sequence[str] = PIPELINE) -> subprocess.Popen[str]:
    scratch.mkdir()
    command = [sys.executable, *program, str(run_folder)]
    environment = {**os.environ, "TMPDIR": str(scratch), SERVICE_VARIABLE: ""}
    return subprocess.Popen(command, cwd=PROJECT, env=environment, stderr=subprocess.PIPE, text=True)


def java_of(scratch: Path) -> list[psutil.Process]:
    """The Java processes that keep their files in ``scratch``."""
    return [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "java" and any(str(scratch) in word for word in process.info["cmdline"] or [])
    ]


@pytest.mark.long  # test_longtx has the same of a run
def test_all_tables_are_made_and_nothing_is_left(tmp_path: Path) -> None:
    folder = SyntheticRun(tmp_path / "run").live(1, at_s=1).write(final_snapshot={})
    process = start(folder, tmp_path / "scratch")
    _, said = process.communicate(timeout=2 * DEADLINE_S)
    assert process.returncode == 0, said
    assert [len(read_table(folder, name)) for name in ("jobs", "torn")] == [1, 3]
    assert {path.name for path in (folder / "tables").iterdir()} == set(TABLES)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert java_of(tmp_path / "scratch") == []


@pytest.mark.parametrize(
    "program", [pytest.param(PIPELINE, marks=pytest.mark.long), ("-c", BENCH)], ids=["the pipeline", "the bench that started it"]
)
def test_java_ends_when_a_process_above_it_is_killed(tmp_path: Path, program: Sequence[str]) -> None:
    folder = SyntheticRun(tmp_path / "run").live(1, at_s=1).write(final_snapshot={})
    scratch = tmp_path / "scratch"
    process = start(folder, scratch, program)
    wait_for(lambda: list(scratch.glob("*/blockmgr-*")), "a folder of Spark's", DEADLINE_S)
    assert java_of(scratch)
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert psutil.wait_procs(below, timeout=DEADLINE_S)[1] == []
    assert java_of(scratch) == []
    with pytest.raises(NoTableError):
        read_table(folder, "phases")
