"""The reaper of a bench that is killed, without servers: which records it corrects, and what it removes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
