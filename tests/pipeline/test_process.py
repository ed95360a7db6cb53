"""The pipeline as a process: what it leaves behind, whether it ends or is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from stallbench.pipeline.failures import NoTableError
from stallbench.pipeline.tables import TABLES, read_table
from tests.synthetic_run import SyntheticRun
from tests.waiting import wait_for

PROJECT = Path(__file__).resolve().parents[2]
DEADLINE_S = 180.0

pytestmark = pytest.mark.timeout(600)  # each starts a Java of its own, on a machine that may be busy with others


def start(run_folder: Path, scratch: Path) -> subprocess.Popen[str]:
    scratch.mkdir()
    command = [sys.executable, "-m", "stallbench.pipeline", str(run_folder), "--master", "local[2]"]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    return subprocess.Popen(command, cwd=PROJECT, env=environment, stderr=subprocess.PIPE, text=True)


def java_of(scratch: Path) -> list[psutil.Process]:
    """The Java processes that keep their files in ``scratch``."""
    return [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "java" and any(str(scratch) in word for word in process.info["cmdline"] or [])
    ]


def test_all_tables_are_made_and_nothing_is_left(tmp_path: Path) -> None:
    folder = SyntheticRun(tmp_path / "run").live(1, at_s=1).write(final_snapshot={})
    process = start(folder, tmp_path / "scratch")
    _, said = process.communicate(timeout=2 * DEADLINE_S)
    assert process.returncode == 0, said
    assert [len(read_table(folder, name)) for name in ("jobs", "torn")] == [1, 3]
    assert {path.name for path in (folder / "tables").iterdir()} == set(TABLES)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert java_of(tmp_path / "scratch") == []


def test_java_ends_with_a_pipeline_that_is_killed(tmp_path: Path) -> None:
    folder = SyntheticRun(tmp_path / "run").live(1, at_s=1).write(final_snapshot={})
    scratch = tmp_path / "scratch"
    process = start(folder, scratch)
    wait_for(lambda: list(scratch.glob("*/blockmgr-*")), "a folder of Spark's", DEADLINE_S)
    assert java_of(scratch)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not java_of(scratch), "the end of Java", DEADLINE_S)
    with pytest.raises(NoTableError):
        read_table(folder, "phases")
