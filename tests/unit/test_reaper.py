"""The reaper of a bench that is killed, without servers: which records it corrects, and what it removes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stallbench.leftovers import remove_leftovers
from tests.unit.made_up_run import make_record
from tests.waiting import wait_for

KILLED_BENCH = """
import os, pathlib, signal
from stallbench.processes.reaper import start_reaper

scratch = pathlib.Path("scratch").absolute()
scratch.mkdir()
with start_reaper("a-token-of-this-test", record=pathlib.Path("runs/a-run/run.json"), scratch=scratch):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_record_of_a_killed_bench_is_corrected_also_if_its_path_is_relative(tmp_path: Path) -> None:
    """As the folder of runs is by default where the bench was installed from a wheel; the reaper works in the root folder."""
    record = tmp_path / "runs" / "a-run" / "run.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"status": "running"}))
    subprocess.run([sys.executable, "-c", KILLED_BENCH], cwd=tmp_path, check=False)
    wait_for(lambda: not (tmp_path / "scratch").exists(), "the end of the temporary folder", 60)
    assert json.loads(record.read_text()) == {"status": "aborted", "reason": "the bench was killed"}


@pytest.mark.parametrize("by_reaper", [True, False], ids=["by the reaper", "by clean"])
def test_a_record_that_was_being_written_when_the_bench_was_killed_is_removed(tmp_path: Path, by_reaper: bool) -> None:
    record = tmp_path / "runs" / "a-run" / "run.json"
    record.parent.mkdir(parents=True)
    dead = {"version": "0", "pid": 2**22, "process_started_s": 0.0}
    record.write_text(json.dumps(make_record(status="running", bench=dead)))
    unfinished = record.with_name(f".run.json.{2**22}")
    of_another = record.with_name(".run.json.1")
    for path in (unfinished, of_another):
        path.write_text("{")
    if by_reaper:
        subprocess.run([sys.executable, "-c", KILLED_BENCH], cwd=tmp_path, check=False)
        wait_for(lambda: not (tmp_path / "scratch").exists(), "the end of the temporary folder", 60)
    else:
        remove_leftovers(tmp_path / "runs")
    assert (unfinished.exists(), of_another.exists()) == (False, True)
