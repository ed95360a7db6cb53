"""A soak as a user starts it: it loses its terminal, is killed in its third cycle, and is resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml

from stallbench.pipeline.tables import read_table
from tests.end_to_end.conftest import Bench, RunHere, marked_with_folder, scratch_folders
from tests.waiting import wait_for

pytestmark = pytest.mark.end_to_end

GROWS = """
summary = "A queue that keeps what is done: the second cycle begins with more in its table than it may."
[database]
engine = "postgres"
[queue]
kind = "status_column"
[producers]
rate = 50
max_batch = 200
backlog = 400
[workers]
count = 1
[[phases]]
name = "baseline"
duration = "5s"
faults = [{ kind = "pause", on = "workers", after = "1s", for = "1s" }]
[[expect]]
metric = "live_tuples.first"
phase = "baseline"
at_most = 700
because = "each cycle brings a backlog of 400"
"""
"""A machine that stalls for three seconds adds 150 jobs to the start of the first cycle, less than a second backlog."""


def read_soak(bench: Bench) -> tuple[Path, dict[str, Any]]:
    (path,) = bench.runs.glob("*-soak-grows")
    return path, json.loads((path / "study.json").read_text())


def wait_for_cycle(bench: Bench, number: int, within_s: float = 300) -> dict[str, Any]:
    """Wait until the load of a cycle runs, and return its ``run.json``."""

    def find_record() -> dict[str, Any] | None:
        for path in bench.runs.glob(f"*-soak-grows/cycles/{number:04d}/run.json"):
            record: dict[str, Any] = json.loads(path.read_text())
            if record["phases"][0]["start_ns"] and any(path.parent.glob("events/worker-1.csv")):
                return record
        return None

    return wait_for(find_record, f"the load of cycle {number}", within_s)


def pids(record: dict[str, Any]) -> dict[str, int]:
    """Return the processes that all cycles share: not bystander, collectors and longrunners, which are new in each, nor the one that filled the backlog."""
    return {
        one["name"]: one["pid"]
        for one in record["processes"]
        if one["role"] not in ("bystander", "collectors", "longrunner") and one["end_ns"] is None
    }


def test_a_soak_survives_its_terminal_and_its_bench(bench: Bench, run_here: RunHere, tmp_path: Path) -> None:
    scenario = tmp_path / "grows.toml"
    scenario.write_text(GROWS)
    running = bench.start("soak", str(scenario), "--for", "15s", "--keep", "0")
    try:
        path, left_over = lose_terminal_and_bench(bench, running)
    finally:
        running.kill()
        running.wait()

    ended = bench.run("soak", "--continue", path.name)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    path, content = read_soak(bench)
    assert content["status"] == "completed"
    cycles = content["runs"]
    assert [cycle["status"] for cycle in cycles] == ["completed", "completed", "aborted", "completed"]
    assert [cycle["server_set"] for cycle in cycles] == [1, 1, 1, 2]
    assert [cycle["verdict"] for cycle in cycles] == ["pass", "fail", None, "pass"]
    assert "Cycle 3 is aborted (the bench was killed during it); it is kept and not counted." in content["notes"][0]
    said = " ".join(ended.stdout.split())
    assert "Not reproduced in 1 of 3 cycles, first in cycle 2: live_tuples.first in baseline is" in said

    assert_every_job_of_the_cycle_before_is_known(path, left_over)
    assert_drift_breaks_at_the_resumption(content)
    assert_cases_for_ci(path)
    assert_disk_is_bounded(path, content)

    page = (path / "report.html").read_text()
    assert 'href="cycles/0002/report.html"' in page
    assert (path / "cycles" / "0002" / "report.html").is_file()
    assert run_here("report", str(path)).returncode == 1
    refused = run_here("report", str(path / "cycles" / "0001"))
    assert refused.returncode == 2
    assert "its records were removed" in refused.stderr


def lose_terminal_and_bench(bench: Bench, running: subprocess.Popen[str]) -> tuple[Path, int]:
    """Take the terminal away in the first cycle, and kill the bench in the third; returns the soak's folder, and how many jobs the third began with."""
    first = wait_for_cycle(bench, 1)
    assert running.stdout
    assert running.stderr
    running.stdout.close()
    running.stderr.close()
    running.send_signal(signal.SIGHUP)

    third = wait_for_cycle(bench, 3)
    assert set(pids(first)) == {"primary", "toxiproxy", "worker-1", "producer-1"}
    assert pids(third) == pids(first), "all cycles share the same servers and processes"
    path, content = read_soak(bench)
    assert [cycle["verdict"] for cycle in content["runs"]] == ["pass", "fail", None]
    assert "cycle 2 begins; 1 more follow" in (path / "soak.log").read_text()
    running.kill()
    running.wait()

    def list_left() -> list[object]:
        return [*marked_with_folder(path / "cycles" / "0003"), *scratch_folders(first["bench"]["pid"])]

    wait_for(lambda: not list_left(), lambda: f"the end of what the killed bench has left behind, {list_left()},")
    assert json.loads((path / "cycles" / "0003" / "run.json").read_text())["status"] == "aborted"
    return path, int(content["runs"][1]["left_over"])


def assert_every_job_of_the_cycle_before_is_known(path: Path, left_over: int) -> None:
    states = read_table(path / "cycles" / "0002", "conservation").set_index("state")["jobs"]
    assert "unexpected" not in states
    assert "lost" not in states
    before = (path / "cycles" / "0003" / "left_over.csv").read_text().splitlines()
    assert before[-1] == f"end,{left_over}"


def assert_drift_breaks_at_the_resumption(content: dict[str, Any]) -> None:
    drift = content["drift"]
    rows = drift["live_tuples.last in baseline"]
    assert (rows["segments"], rows["cycles"]) == (1, 2), "the cycle on new servers is no point of the segment before"
    assert rows["slope"] > 0
    for name in ("primary", "worker-1", "producer-1", "toxiproxy", "stallbench"):
        assert drift[f"memory of {name}, MiB"]["level"] > 1
    assert drift["memory of collectors, MiB"] is None
    assert drift["claim_ms.p95 in baseline"]["is_significant"] is None, "two cycles are too few to say"


def assert_cases_for_ci(path: Path) -> None:
    suites = {suite.name: list(suite) for suite in JUnitXml.fromfile(str(path / "junit.xml"))}
    assert list(suites) == ["stallbench.grows", *(f"grows.cycle-{number:04d}" for number in range(1, 5))]
    for number, results in ((1, []), (2, [Failure]), (4, [])):
        (case,) = [case for case in suites[f"grows.cycle-{number:04d}"] if case.name == "live_tuples.first in baseline"]
        assert [type(result) for result in case.result] == results
    (killed,) = suites["grows.cycle-0003"]
    assert killed.name == "the run is carried out"
    assert isinstance(killed.result[0], Error)


def assert_disk_is_bounded(path: Path, content: dict[str, Any]) -> None:
    """Only the last cycle keeps its records; a killed one has no tables, and keeps its records."""
    kept = {number for number in range(1, 5) if (path / f"cycles/{number:04d}/events").exists()}
    assert kept == {3, 4}
    assert [cycle["number"] for cycle in content["runs"] if cycle["records_removed"]] == [1, 2]
    assert (path / "cycles/0001/verdict.json").is_file()
    used = sum(os.lstat(file).st_blocks * 512 for file in path.rglob("*") if not file.is_dir())
    assert used < content["bound_bytes"]
